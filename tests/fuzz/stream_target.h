#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "qp/queue_pair/queue_pair.h"
#include "queue/shared_receive_queue.h"
#include "stream_keys.h"
#include "stream_property.h"
#include "tests/unit/mem/other_poller.h"
#include "wire/packet.h"

namespace uroce::fuzz {

/// Throws std::logic_error when something does not hold.
void require(bool holds, const char* what);

/// What comes out of the queue pair, before its buffer is used again.
using Observer = std::function<void(std::span<const std::byte> frame)>;

/// A port with as many buffers as a burst needs, and no more.
class Pool final : public port::PortQueue {
 public:
  static constexpr uint32_t kFrameBytes = 4096 + 192;

  explicit Pool(Observer observer);

  uint16_t receive(std::span<port::RxFrame>) override { return 0; }
  void release(std::span<const port::RxFrame>) override {}
  uint16_t allocate(std::span<port::TxFrame> frames) override;
  uint16_t transmit(std::span<const port::TxFrame> frames) override;
  void free(std::span<const port::TxFrame> frames) override;
  port::RxFrame loop(const port::TxFrame&) override { return {}; }

 private:
  Observer observer_;
  std::vector<std::byte> memory_;
  std::vector<std::byte*> free_;
};

/// A queue pair of any service with all that it needs, which checks what must hold whatever a peer sends:
/// every request completes once and in the order of its queue, the first that fails is followed by flushed
/// ones only, no byte changes but where a peer or a receive may write, nothing is allocated, and all that
/// there is to send is sent after so many turns.
class StreamTarget {
 public:
  struct Options {
    qp::Type type = qp::Type::kRc;
    bool shared_receives = false;
    bool credits = true;
    bool signal_all = true;
  };
  static constexpr uint32_t kMtu = 256;
  static constexpr uint32_t kDepth = 16;
  static constexpr size_t kTargetBytes = 16384;  // that a peer may read, write, and count in
  static constexpr size_t kSourceBytes = 4096;   // that it may read
  static constexpr size_t kBurstMax = 8;         // packets whose placements are committed together
  static constexpr size_t kReceiveBytes = 1500;  // of one receive
  static constexpr uint64_t kTargetIova = 0x10000;
  static constexpr uint64_t kSourceIova = 0x20000;

  StreamTarget(const Options& options, Observer observer);

  const Options options;
  [[nodiscard]] bool has_shared_receives() const {
    return options.shared_receives || options.type == qp::Type::kXrcReceive;
  }
  const wire::Path path;  // from here to the peer
  Psn first_sent{100};
  Psn first_expected{5000};
  mem::RegionKeys target;
  mem::RegionKeys source;
  queue::SrqNumber receives_number;  // XRC

  /// To RTS, from whatever state; what was posted is forgotten.
  void restart();
  /// To ERR.
  void fail();
  void drain();
  [[nodiscard]] qp::State state() const { return queue_pair_.state(); }

  /// Where its data are.
  enum class Data : uint8_t { kTarget, kSource, kGone };
  /// False: the queue is full.
  bool post(const queue::SendRequest& request, Data data, uint32_t offset);
  /// Something that sends nothing: it changes what a key means.
  bool post_local(queue::SendOperation operation, StreamKeys::Kind kind, uint8_t low);
  bool post_receive(uint32_t bytes);

  /// The packet's bytes stay until end_burst(), which is due after kBurstMax packets.
  void take_early(const wire::Packet& packet);
  void show(const wire::Packet& packet);
  void end_burst();
  void pump();
  /// Another poller of the device is in the middle of a turn: what waits for it stalls until pump().
  void begin_other_turn() { other_poller_.begin_turn(); }
  /// Time passes, and what is due expires.
  void advance(Duration by);
  /// All that was posted is complete after the end; nothing has changed that must not.
  void finish();
  [[nodiscard]] Depth depth() const;

 private:
  struct Region {
    size_t offset;
    size_t bytes;
  };
  static constexpr size_t kGuard = 256;
  static constexpr size_t kReceivesAt = kGuard;
  static constexpr size_t kTargetAt = kReceivesAt + kDepth * kReceiveBytes + kGuard;
  static constexpr size_t kSourceAt = kTargetAt + kTargetBytes + kGuard;
  static constexpr size_t kMemory = kSourceAt + kSourceBytes + kGuard;

  void step(qp::State state, qp::AttributeMask mask);
  void publish();
  void check_completions();
  void check_order_of_sends(uint64_t number);
  void check_untouched(size_t begin, size_t bytes) const;
  template <typename Act>
  void without_allocation(const Act& act);

  mem::testing::OtherPoller other_poller_;
  mem::BusSpace bus_{{}};
  mem::RegionTable regions_{{.entries_max = 64, .grace_period = &other_poller_, .bus_space = &bus_}};
  std::vector<std::byte> memory_;
  mem::RegionKeys receives_key_;

 public:
  StreamKeys keys;

 private:
  queue::SendQueue sends_;
  queue::ReceiveQueue receives_{{.depth = kDepth}};
  queue::CompletionQueue send_completions_{{.depth = 4 * kDepth}};
  queue::CompletionQueue receive_completions_{{.depth = 4 * kDepth}};
  queue::SharedReceiveTable shared_table_{{.numbers = 16}};
  queue::SharedReceiveQueue shared_;
  Pool port_;
  port::TxBatch tx_{port_};
  copy::Placer placer_{copy::Kind::kAuto};
  queue::CompletionBatch completions_{0};
  Counters counters_;
  qp::Turn turn_;
  const qp::TransportOptions transport_;
  qp::QueuePair queue_pair_;
  qp::Attributes attributes_;
  size_t burst_ = 0;

  uint64_t sends_posted_ = 0;
  uint64_t sends_completed_ = 0;
  uint64_t receives_posted_ = 0;
  uint64_t receives_completed_ = 0;
  // By number, modulo more than a queue holds and completes in a burst.
  std::array<uint32_t, 2 * kDepth> receive_bytes_{};
  std::vector<bool> signaled_;  // of all sends, by number
  uint64_t sends_successful_ = 0;
  uint64_t receives_successful_ = 0;
  bool sends_failed_ = false;
  bool receives_failed_ = false;
};

}  // namespace uroce::fuzz
