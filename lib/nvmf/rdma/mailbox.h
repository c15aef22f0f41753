#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

namespace uroce::nvmf {

/// Messages to one thread from any. A reader that is awake asks has_any(), one load; one that sleeps has fd()
/// among what it polls.
template <typename Message>
class RdmaMailbox {
 public:
  RdmaMailbox() : fd_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {}
  ~RdmaMailbox() { close(fd_); }
  RdmaMailbox(const RdmaMailbox&) = delete;
  RdmaMailbox& operator=(const RdmaMailbox&) = delete;

  void push(Message message) {
    {
      const std::lock_guard guard(mutex_);
      waiting_.push_back(std::move(message));
      any_.store(true, std::memory_order_release);
    }
    wake();
  }
  void wake() const {
    // A full counter wakes just as well.
    [[maybe_unused]] const int written = eventfd_write(fd_, 1);
  }
  [[nodiscard]] bool has_any() const { return any_.load(std::memory_order_acquire); }
  /// Empties it; in the order of sending.
  std::vector<Message> take() {
    eventfd_t ignored = 0;
    [[maybe_unused]] const int read = eventfd_read(fd_, &ignored);
    const std::lock_guard guard(mutex_);
    any_.store(false, std::memory_order_relaxed);
    return std::exchange(waiting_, {});
  }
  [[nodiscard]] int fd() const { return fd_; }

 private:
  const int fd_;
  std::mutex mutex_;
  std::vector<Message> waiting_;
  std::atomic<bool> any_{false};
};

}  // namespace uroce::nvmf
