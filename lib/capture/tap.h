#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <optional>
#include <span>

#include "base/counters/counters.h"
#include "base/values/identifiers.h"
#include "capture/order.h"
#include "capture/ring.h"
#include "port/port.h"
#include "wire/packet.h"

namespace uroce::capture {

/// What a captured frame says of the queue pair at this end.
struct QueuePairFacts {
  QpNumber number;
  uint8_t state = 0;
  uint32_t due_request = 0;
  uint32_t due_response = 0;
  // Of a connected one.
  QpNumber peer;
  Gid peer_address{};
};

/// Finds queue pairs of a poller, in its turns.
class QueuePairFinder {
 public:
  [[nodiscard]] virtual std::optional<QueuePairFacts> find(QpNumber number) const = 0;

 protected:
  ~QueuePairFinder() = default;
};

/// Stands between a poller and its port queue while frames are captured, and copies those that are meant to a
/// ring. All else it hands on as it is. In turns of the poller.
class Tap final : public port::PortQueue {
 public:
  struct Options {
    port::PortQueue& port;
    const Counters& counters;  // of the poller
    const QueuePairFinder& queue_pairs;
    int64_t (*clock_ns)();  // since 1970
    Order order;
  };
  Tap(const Options& options, const RingWriter& ring);

  /// Where received frames come from: the port, or what stands before it.
  void set_source(port::FrameSource& source) { source_ = &source; }

  uint16_t receive(std::span<port::RxFrame> frames) override;
  uint16_t transmit(std::span<const port::TxFrame> frames) override;
  port::RxFrame loop(const port::TxFrame& frame) override;
  void release(std::span<const port::RxFrame> frames) override { options_.port.release(frames); }
  void leave_bodies() override { options_.port.leave_bodies(); }
  uint16_t allocate(std::span<port::TxFrame> frames) override { return options_.port.allocate(frames); }
  void free(std::span<const port::TxFrame> frames) override { options_.port.free(frames); }

 private:
  static constexpr size_t kBurstMax = 64;
  static constexpr size_t kPeersMax = 1024;  // a power of two

  /// A frame of the burst that was received last.
  struct Received {
    uint64_t position = 0;
    wire::ParseOutcome parsed;
    bool intact = true;
  };
  /// Which of our queue pairs is at the other end of a peer's.
  struct Peer {
    Gid address{};
    QpNumber number;
    QpNumber ours;
  };

  void take_received(const port::RxFrame& frame, int64_t time_ns);
  void take_sent(const port::TxFrame& frame, int64_t time_ns);
  [[nodiscard]] bool is_meant(bool roce) const;
  [[nodiscard]] std::optional<QueuePairFacts> sender_of() const;
  Peer& peer_slot(const Gid& address, QpNumber number);
  void learn(const QueuePairFacts& facts);
  static void add_context(const QueuePairFacts& facts, Record& record);
  void publish(uint64_t errors);
  void settle();
  void give_reasons(Counter reason, uint64_t times);
  [[nodiscard]] static bool can_be_reason(const Received& received, Counter reason);

  const Options options_;
  const std::bitset<256> opcodes_;
  RingWriter ring_;
  port::FrameSource* source_;
  wire::Packet packet_;  // the one that is looked at
  std::array<Received, kBurstMax> burst_;
  size_t burst_size_ = 0;
  uint64_t naks_ = 0;                              // of the frames taken since the last publish()
  std::array<uint64_t, kCounterCount> counted_{};  // when the burst was received
  std::array<Peer, kPeersMax> peers_{};
};

}  // namespace uroce::capture
