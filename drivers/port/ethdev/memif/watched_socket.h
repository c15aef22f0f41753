#pragma once

#include <functional>

namespace uroce::drivers {

/// A descriptor that EAL's interrupt thread looks after: while it can be read, or its other end has gone,
/// `ready` is called there. Constructed, used and destroyed on that thread only (interrupt_thread.h); `ready`
/// may destroy it.
class WatchedSocket {
 public:
  /// Owns `descriptor`. Without memory for the watch nothing is ever called.
  WatchedSocket(int descriptor, std::function<void()> ready);
  ~WatchedSocket();
  WatchedSocket(const WatchedSocket&) = delete;
  WatchedSocket& operator=(const WatchedSocket&) = delete;

  [[nodiscard]] int descriptor() const { return descriptor_; }

 private:
  static void serve(void* unused);
  static int watching_descriptor();

  const int descriptor_;
  const std::function<void()> ready_;
};

}  // namespace uroce::drivers
