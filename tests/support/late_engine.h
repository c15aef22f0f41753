#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <set>
#include <vector>

#include "copy/engine.h"

namespace uroce::copy {

/// A copy engine that does nothing before it is told to, and then the newest copy first.
class LateEngine final : public Engine {
 public:
  static constexpr size_t kAll = std::numeric_limits<size_t>::max();

  bool submit(std::byte* to, const std::byte* from, uint32_t length) override {
    if (stopped_ || copies_.size() - reported_ >= room) return false;
    copies_.push_back({to, from, length});
    return true;
  }
  void start() override { started_ = copies_.size(); }
  size_t ended(std::span<Outcome> outcomes) override {
    if (asked_until_done_ > 0 && --asked_until_done_ == 0) finish();
    const size_t count = std::min(outcomes.size(), done_ - reported_);
    for (size_t i = 0; i < count; ++i)
      outcomes[i] = failing.contains(reported_ + i) ? Outcome::kFailed : Outcome::kCopied;
    reported_ += count;
    return count;
  }
  void stop(bool overdue) override {
    stopped_ = true;
    overdue_ = overdue;
  }

  /// The oldest `count` copies that have been started, and are not done, are done now.
  void finish(size_t count = kAll) {
    if (stopped_) return;
    const size_t until = done_ + std::min(count, started_ - done_);
    for (size_t i = until; i-- > done_;) {
      if (!failing.contains(i)) std::memcpy(copies_[i].to, copies_[i].from, copies_[i].length);
    }
    done_ = until;
  }
  /// All that is started is done when it is asked after for the `times`-th time from now.
  void finish_when_asked(size_t times) { asked_until_done_ = times; }

  [[nodiscard]] size_t submitted() const { return copies_.size(); }
  [[nodiscard]] size_t waiting() const { return started_ - done_; }
  [[nodiscard]] bool stopped() const { return stopped_; }
  [[nodiscard]] bool overdue() const { return overdue_; }

  std::set<size_t> failing;  // copies, counted from the first that was ever submitted
  size_t room = kAll;

 private:
  struct Copy {
    std::byte* to;
    const std::byte* from;
    uint32_t length;
  };
  std::vector<Copy> copies_;
  size_t started_ = 0;
  size_t done_ = 0;
  size_t reported_ = 0;
  size_t asked_until_done_ = 0;
  bool stopped_ = false;
  bool overdue_ = false;
};

}  // namespace uroce::copy
