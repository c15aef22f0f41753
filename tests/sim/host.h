#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/configuration/configuration.h"
#include "engine/device/device.h"
#include "tests/sim/network.h"

namespace uroce::sim {

/// A machine: one device of the engine at its end of the wire, without threads. Its pollers are turned by
/// turn(), and where they are inline also by what the application calls, as on any device. Nothing else is
/// simulated but the port and the clock.
class Host {
 public:
  struct Options {
    engine::DeviceConfiguration device;
    engine::PollerMode mode = engine::PollerMode::kInline;
    copy::Kind copy_kind = copy::Kind::kAuto;
    qp::CongestionOptions congestion = {};
    bool follow_packets = true;
    bool selective_repeat = true;
    std::optional<uint64_t> slow_engines = {};  // for copies, one for each poller; their seed
  };
  Host(std::unique_ptr<WireEnd> end, const Options& options);
  ~Host();

  [[nodiscard]] engine::Device& device() { return *device_; }
  [[nodiscard]] const engine::Device& device() const { return *device_; }
  [[nodiscard]] WireEnd& end() const { return end_; }

  /// No damaged frame may have a byte of this memory (whole pages) stored to.
  void watch(std::span<std::byte> memory) { watched_.push_back(memory); }
  void unwatch(std::span<std::byte> memory);

  [[nodiscard]] size_t pollers() const;
  /// One turn as a background thread makes it; true when it did something.
  bool turn(size_t poller);
  /// When the next turn is due if nothing arrives: right after every poller had one.
  [[nodiscard]] Instant deadline() const;

  // What the application calls.
  void ring_doorbell(engine::QpSlot& queue_pair);
  size_t poll(queue::CompletionQueue& completions, std::span<queue::Completion> to);

  /// What a damaged frame did; empty while all is well.
  [[nodiscard]] const std::string& failure() const { return failure_; }

 private:
  template <typename Turns>
  void guarded(const Turns& turns);

  WireEnd& end_;
  engine::DeviceState* state_ = nullptr;  // of device_
  std::unique_ptr<engine::Device> device_;
  std::vector<std::span<std::byte>> watched_;
  std::string failure_;
};

}  // namespace uroce::sim
