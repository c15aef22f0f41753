#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include "base/random.h"
#include "base/time.h"
#include "port/port.h"
#include "tests/sim/faults.h"
#include "tests/sim/frame.h"

namespace uroce::sim {

/// One end of a simulated wire. Time is what `now` says; nothing here waits.
class WireEnd final : public port::Port, public port::PortQueue {
 public:
  struct Options {
    MacAddress mac;
    Path path;                                // what happens to the frames that this end sends
    uint64_t seed = 0;                        // of the faults on that path
    size_t ring = 1024;                       // frames that wait to be received; more are lost
    Duration backlog_max = microseconds(50);  // of the wire; beyond it transmit() refuses
  };

  WireEnd(const Instant& now, Options options);
  /// Makes two ends one wire.
  static void join(WireEnd& a, WireEnd& b);

  // port::Port
  [[nodiscard]] const port::Capabilities& capabilities() const override { return capabilities_; }
  port::PortQueue& queue(uint16_t) override { return *this; }
  [[nodiscard]] bool link_up() const override { return true; }

  // port::PortQueue
  uint16_t receive(std::span<port::RxFrame> frames) override;
  void release(std::span<const port::RxFrame> frames) override;
  uint16_t allocate(std::span<port::TxFrame> frames) override;
  uint16_t transmit(std::span<const port::TxFrame> frames) override;
  void free(std::span<const port::TxFrame> frames) override;
  port::RxFrame loop(const port::TxFrame& frame) override;

  /// When the next frame arrives here; kNever when none is under way.
  [[nodiscard]] Instant next_arrival() const;
  /// What receive() returns next is damaged; it then comes alone.
  [[nodiscard]] bool next_is_damaged() const;

  [[nodiscard]] uint64_t sent() const { return sent_; }
  [[nodiscard]] uint64_t damaged_received() const { return damaged_received_; }

 private:
  void send(FramePtr frame, size_t node);
  void arrive(FramePtr frame);

  const Instant& now_;
  Options options_;
  Random random_;
  port::Capabilities capabilities_;
  WireEnd* peer_ = nullptr;
  Instant wire_free_{};
  uint64_t sent_ = 0;
  uint64_t damaged_received_ = 0;
  uint64_t arrivals_ = 0;
  std::map<std::pair<Instant, uint64_t>, FramePtr> arriving_;  // by arrival, then by order
};

}  // namespace uroce::sim
