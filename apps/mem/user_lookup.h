#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "base/values/identifiers.h"

namespace uroce::memory_export {

/// Asks the host's service whose a queue pair number is, in a thread of its own: the service may take
/// seconds, and what does not wait for it goes on.
class UserLookup {
 public:
  /// Questions that wait for the service; of more the first ones are forgotten.
  static constexpr size_t kQuestionsMax = 64;

  struct Question {
    uint64_t number = 0;  // of what asks
    Gid address;          // of the device
    QpNumber queue_pair;
  };
  struct Answer {
    uint64_t number = 0;
    std::optional<uint64_t> user;  // none: the service does not know it
  };

  /// Throws client::Failure.
  UserLookup();
  /// Waits for the answer that is under way.
  ~UserLookup();
  UserLookup(const UserLookup&) = delete;
  UserLookup& operator=(const UserLookup&) = delete;

  void submit(const Question& question);
  /// Readable when there is something to take.
  [[nodiscard]] int descriptor() const { return done_signal_; }
  std::vector<Answer> take();

 private:
  void run();

  const int done_signal_;
  std::mutex mutex_;
  std::condition_variable wanted_;
  std::deque<Question> questions_;
  std::vector<Answer> answers_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace uroce::memory_export
