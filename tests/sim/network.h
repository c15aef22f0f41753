#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/values/random.h"
#include "base/values/time.h"
#include "port/port.h"
#include "tests/sim/faults.h"
#include "tests/sim/frame.h"

namespace uroce::sim {

/// How an end of a wire spreads what arrives over its queues.
enum class Steering : uint8_t {
  kHash,        // as RSS does: a flow stays on one queue
  kRoundRobin,  // every frame on the next queue
  kRandom,
  kChanging,  // a flow stays on one queue until the table of RSS is changed, again and again
};

/// One end of a simulated wire: a port with one or more queues. Time is the virtual clock's; nothing here
/// waits. Any thread.
///
/// A damaged frame is given out by itself, and nothing else with it: as long as one is due, the queues give
/// out no other, until all that was given out before has come back (or patience has ended). The thread that
/// turns the host meanwhile can see to it that nothing in its memory changes.
class WireEnd final : public port::Port {
 public:
  struct Options {
    MacAddress mac;
    Path path;          // what happens to the frames that this end sends
    uint64_t seed = 0;  // of the faults on that path, and of the steering
    uint16_t queues = 1;
    Steering steering = Steering::kHash;
    bool isolate_damaged = true;              // false: damaged frames come like any other
    size_t ring = 1024;                       // frames that wait in a queue; more are lost
    int64_t picoseconds_per_byte = 80;        // 100 Gbit/s
    Duration backlog_max = microseconds(50);  // of the wire; beyond it transmit() refuses
    /// Sees each frame that leaves the host, or that it takes. Any thread.
    std::function<void(const Frame&)> watch_left = {};
    std::function<void(const Frame&)> watch_taken = {};
  };

  explicit WireEnd(Options options);
  ~WireEnd() override;
  /// Makes two ends one wire, or more of them a switch, which knows where each address is. Set-up.
  static void join(std::span<WireEnd* const> ends);

  // port::Port
  [[nodiscard]] const port::Capabilities& capabilities() const override { return capabilities_; }
  port::PortQueue& queue(uint16_t index) override { return queues_.at(index); }
  [[nodiscard]] bool link_up() const override { return true; }

  /// When the next frame arrives here; kNever when none is under way.
  [[nodiscard]] Instant next_arrival() const;

  /// What the host handles next is one damaged frame and nothing else, as long as quarantine(true) holds.
  [[nodiscard]] bool damaged_alone() const;
  /// While it is on, nothing but a damaged frame is given out.
  void quarantine(bool on);

  [[nodiscard]] uint64_t sent() const { return sent_; }
  [[nodiscard]] uint64_t damaged_received() const { return damaged_received_; }
  [[nodiscard]] uint64_t damaged_isolated() const { return damaged_isolated_; }

 private:
  static constexpr Duration kDamagedPatience = microseconds(100);
  static constexpr Duration kSteeringChangesEvery = milliseconds(2);

  class Queue final : public port::PortQueue {
   public:
    Queue(WireEnd& end, size_t index) : end_(end), index_(index) {}
    uint16_t receive(std::span<port::RxFrame> frames) override { return end_.receive(index_, frames); }
    void release(std::span<const port::RxFrame> frames) override { end_.release(frames); }
    uint16_t allocate(std::span<port::TxFrame> frames) override;
    uint16_t transmit(std::span<const port::TxFrame> frames) override { return end_.transmit(frames); }
    void free(std::span<const port::TxFrame> frames) override;
    port::RxFrame loop(const port::TxFrame& frame) override { return end_.loop(frame); }

   private:
    WireEnd& end_;
    size_t index_;
  };

  /// By arrival, then by order.
  using Arriving = std::map<std::pair<Instant, uint64_t>, FramePtr>;

  uint16_t receive(size_t queue, std::span<port::RxFrame> frames);
  void release(std::span<const port::RxFrame> frames);
  uint16_t transmit(std::span<const port::TxFrame> frames);
  port::RxFrame loop(const port::TxFrame& frame);

  void send(FramePtr frame, size_t node);
  void cross(FramePtr frame);
  void arrive(FramePtr frame);
  size_t steer(const Frame& frame);

  // Under receiving_.
  [[nodiscard]] bool due(size_t queue) const;
  [[nodiscard]] std::optional<size_t> queue_with_damaged() const;
  port::RxFrame take_next(size_t queue);

  const Options options_;
  port::Capabilities capabilities_;
  std::vector<Queue> queues_;
  std::vector<WireEnd*> peers_;

  std::mutex sending_;  // before the receiving_ of the peer
  Random random_;
  Instant wire_free_{};
  uint64_t sent_ = 0;

  mutable std::mutex receiving_;
  Random steering_random_;
  uint64_t arrivals_ = 0;
  std::vector<Arriving> arriving_;  // by queue
  size_t inside_ = 0;               // given out or looped, and not released yet
  bool damaged_inside_ = false;     // isolated, and not released yet
  bool quarantine_ = false;
  uint64_t damaged_received_ = 0;
  uint64_t damaged_isolated_ = 0;
};

}  // namespace uroce::sim
