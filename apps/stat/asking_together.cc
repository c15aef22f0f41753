// Decision: all processes are asked before an answer is awaited. One after the other, 900 locked memories
// cost 450 s. Cost: two descriptors for each memory, so 128 are asked at a time.
#include "apps/stat/asking_together.h"

#include <signal.h>

#include <algorithm>
#include <cerrno>

#include "apps/serve/question.h"

namespace uroce::statistics {
namespace {

/// The way of one process from the lock to its answer.
class Asked {
 public:
  Asked(const ShownStatistics& shown, const AskingOptions& options) : shown_(shown), options_(options) {}

  [[nodiscard]] bool is_done() const { return stage_ == Stage::kDone; }

  void advance() {
    host::StatisticsHeader& shared = shown_.header();
    if (stage_ == Stage::kLocked) {
      // Another reader is done soon.
      if (!shown_.try_lock()) return;
      shared.wanted_queue_pair = options_.wanted.queue_pair;
      shared.wants_regions = options_.wanted.regions ? 1 : 0;
      number_ = serve::post(shared.question);
      stage_ = Stage::kAsked;
    }
    if (stage_ != Stage::kAsked) return;
    const bool answered =
        shared.question.answered.load(std::memory_order_acquire) == number_;  // pairs with answer()
    if (answered || !shared.question.is_open() || (kill(shown_.pid(), 0) != 0 && errno == ESRCH))
      end(answered);
  }

  /// What it has said until now is as good as there is.
  void end(bool answered) {
    rows_ = shown_.rows(options_.wanted, options_.rows_max);
    rows_.current = answered;
    if (stage_ == Stage::kAsked) shown_.unlock();
    stage_ = Stage::kDone;
  }

  /// Until it may have answered, or a moment.
  void pause() const {
    std::atomic<uint32_t>& answered = shown_.header().question.answered;
    const uint32_t now = answered.load(std::memory_order_relaxed);  // a reason to look again
    if (stage_ != Stage::kAsked || now != number_) serve::pause_while(answered, now);
  }

  ShownStatistics::Rows take() { return std::move(rows_); }

 private:
  enum class Stage : uint8_t { kLocked, kAsked, kDone };  // by another reader; by us

  const ShownStatistics& shown_;
  const AskingOptions& options_;
  Stage stage_ = Stage::kLocked;
  uint32_t number_ = 0;
  ShownStatistics::Rows rows_;
};

}  // namespace

std::vector<ShownStatistics::Rows> ask_together(std::span<const ShownStatistics> all,
                                                const AskingOptions& options) {
  std::vector<Asked> asked;
  for (const ShownStatistics& shown : all) asked.emplace_back(shown, options);
  do {
    for (Asked& one : asked) one.advance();
    const auto first = std::ranges::find(asked, false, &Asked::is_done);
    if (first == asked.end()) break;
    first->pause();
  } while (serve::now_ns() < options.until_ns);
  std::vector<ShownStatistics::Rows> rows;
  for (Asked& one : asked) {
    if (!one.is_done()) one.end(false);
    rows.push_back(one.take());
  }
  return rows;
}

}  // namespace uroce::statistics
