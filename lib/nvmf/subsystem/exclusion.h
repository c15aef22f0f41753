#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

namespace uroce::nvmf {

/// Keeps a namespace's blocks unchanged by others while a fused Compare and Write looks at them and writes.
/// Other writers pay one load of an even number. The queue that takes it makes the number odd; then every
/// queue of the namespace holds its new writes back and says so once those under way have ended. Any thread;
/// a member belongs to the thread of its queue.
class Exclusion {
 public:
  /// A queue that may write.
  struct Member {
    uint64_t answered = 0;  // the number that it has answered, or did not see begin
  };

  void join(Member& member);
  /// The member holds nothing and has no write under way.
  void leave(Member& member);

  /// New writes are to be held back.
  [[nodiscard]] bool wanted() const {
    // Pairs with the release in take(): but only to be prompt, since nothing is granted before the member
    // answers.
    return number_.load(std::memory_order_acquire) % 2 == 1;
  }
  /// The member's writes have all ended; others are held back as long as wanted().
  void answer(Member& member);

  /// False: another queue has it or waits for it.
  bool take(Member& member);
  /// For the queue that took it: all other members have answered.
  [[nodiscard]] bool granted();
  void give_back();

 private:
  std::mutex mutex_;
  std::atomic<uint64_t> number_{0};
  uint32_t members_ = 0;
  uint32_t unanswered_ = 0;
};

}  // namespace uroce::nvmf
