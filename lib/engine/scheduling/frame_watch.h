#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "base/process/descriptor.h"
#include "base/values/result.h"
#include "engine/platform/thread.h"
#include "port/port.h"

namespace uroce::engine {

/// What tells of frames: descriptors (port::Port::receive_events()), and the port that is asked to do so
/// (Port::arm_events()); null: none has to be. Not owned.
struct FrameEvents {
  std::vector<int> descriptors = {};
  port::Port* port = nullptr;
};

/// Waits for frames on behalf of threads that sleep elsewhere (Parker, where other processes wake them, too):
/// a thread that sleeps at the descriptors of ports (port::Port::receive_events()) while pollers rest, and
/// costs nothing while they do not.
class FrameWatch {
 public:
  FrameWatch() = default;
  ~FrameWatch() { stop(); }
  FrameWatch(const FrameWatch&) = delete;
  FrameWatch& operator=(const FrameWatch&) = delete;

  /// `arrived` runs on the watch's own thread, once after each arm(), when there is a frame. Not owned:
  /// the descriptors, which stay open until stop(). EMFILE and others: no thread, no descriptor.
  Status start(FrameEvents events, std::span<const uint32_t> processors, std::function<void()> arrived);
  /// The thread has ended when this returns.
  void stop();
  /// In a forked child, where the thread does not exist.
  void abandon();
  [[nodiscard]] bool started() const { return thread_.has_value(); }

  /// The caller is about to sleep: the next frame, or one that is waiting, is reported. Any thread.
  void arm();

 private:
  void watch();

  FrameEvents events_;
  std::function<void()> arrived_;
  std::atomic<bool> armed_{false};  // since the last report
  Descriptor set_;                  // of epoll
  Descriptor stop_;                 // an eventfd
  std::optional<Thread> thread_;
};

}  // namespace uroce::engine
