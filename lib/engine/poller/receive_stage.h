#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/counters/counters.h"
#include "engine/poller/address_table.h"
#include "engine/poller/device_events.h"
#include "engine/poller/frame_switch.h"
#include "engine/poller/gsi.h"
#include "engine/poller/hand_off.h"
#include "engine/poller/loop_ring.h"
#include "engine/poller/multicast_groups.h"
#include "engine/poller/poller_context.h"
#include "engine/poller/poller_qp.h"
#include "engine/poller/queue_pair_moves.h"
#include "faults/receiver.h"
#include "net/links.h"
#include "port/port.h"
#include "port/tx_batch.h"
#include "wire/flow.h"
#include "wire/packet.h"

namespace uroce::capture {
class Tap;
}

namespace uroce::engine {

/// A received frame on its way to its queue pair.
struct StagedPacket {
  wire::Packet packet;
  PollerQp* entry;              // for which it is, or nullptr:
  const MulticastGroup* group;  // of whose members it is for ours, or nullptr: for the general services
  uint32_t frame;               // its frame in the burst
  bool prediction_hit;  // but for what stands from the PSN on it is the one before it, also in `entry`
};

/// The first part of a poller's turn: a burst is collected, parsed and found its queue pairs as a whole
/// before its first packet is performed, so that what the later stages touch is on its way from memory
/// meanwhile. Frames that are no queue pair's end here: echo requests and neighbours are answered, other
/// pollers' frames handed over. In turns of its poller.
class ReceiveStage {
 public:
  /// Frames of each source (port, siblings, ourselves) in one burst.
  static constexpr size_t kSourceFramesMax = 32;
  /// Frames of the port in one burst while packets of several queue pairs come, so that more of these are on
  /// their way from memory at the same time.
  static constexpr size_t kPortFramesMax = 64;
  /// For queue pairs that are stalled; all of them are looked at again in the next turn, before newer ones.
  static constexpr size_t kDeferredFramesMax = 256;
  static constexpr size_t kBurstMax = kDeferredFramesMax + 2 * kSourceFramesMax + kPortFramesMax;

  /// Not owned; they outlive the stage.
  struct Parts {
    uint16_t poller_index;
    port::PortQueue& port_queue;
    const PollerContext& context;
    Counters& counters;
    port::TxBatch& tx;
    LoopRing& looped;
    HandOff& hand_off;
    QueuePairMoves& moves;
    net::Links* links;           // of poller 0
    DeviceListeners* listeners;  // may be null
  };
  explicit ReceiveStage(const Parts& parts) : parts_(parts), source_(&parts.port_queue) {
    deferred_.reserve(kDeferredFramesMax);
  }
  ReceiveStage(const ReceiveStage&) = delete;
  ReceiveStage& operator=(const ReceiveStage&) = delete;

  /// Collects a burst; how many frames it has. The one before was released or kept.
  size_t receive(Instant now);
  /// Faults that are injected into received frames; null: none. In a turn.
  void set_faults(faults::Receiver* faults) {
    faults_ = faults;
    choose_source();
  }
  /// Captures received frames; null: they are not captured. In a turn.
  void tap(capture::Tap* tap) {
    tap_ = tap;
    choose_source();
  }
  [[nodiscard]] faults::Receiver* faults() const { return faults_; }
  /// What a fault has the responder say to a packet that is not intact for that reason.
  [[nodiscard]] std::optional<faults::OrderedRefusal> refusal_of(const StagedPacket& staged) const {
    if (faults_ == nullptr) return std::nullopt;
    return faults_->refusal_of(frames_[staged.frame].data);
  }
  /// Finds the receivers of its frames. `services`: they are there (poller 0).
  void stage(Instant now, bool services);

  /// The packets of the burst, in order; the span is valid until the next receive().
  [[nodiscard]] std::span<StagedPacket> staged() { return std::span(packets_).first(staged_); }
  /// Whether the ICRC is right, or the frame has none because it has never left this host.
  [[nodiscard]] bool is_intact(const StagedPacket& staged) const {
    return !frames_[staged.frame].has_icrc || wire::icrc_matches(staged.packet);
  }
  /// Whether packet `number` of the burst is intact. While the ICRC of a long one is computed the next one of
  /// the burst comes into the cache.
  [[nodiscard]] bool is_intact(size_t number) const {
    const wire::Packet& packet = packets_[number].packet;
    if (!frames_[packets_[number].frame].has_icrc) return true;
    if (packet.ip_packet.size() < wire::kWideIcrcBytesMin) return wire::icrc_matches(packet);
    std::span<const std::byte> next;
    if (number + 1 < staged_) next = packets_[number + 1].packet.ip_packet;
    return wire::icrc_of_long(packet.ip_packet, next) == packet.icrc;
  }
  /// The programs that share the device; null: none. In a turn of poller 0.
  void set_programs(FrameSwitch* programs) { programs_ = programs; }
  [[nodiscard]] FrameSwitch* programs() const { return programs_; }
  /// Drops the staged packets for which `reason_to_drop` returns a counter other than kCount.
  template <typename ReasonToDrop>
  void keep_staged(ReasonToDrop reason_to_drop);
  /// Keeps the packet's frame for the next burst, as it must do with those that come after it for the same
  /// queue pair. When there is no room it is lost as on the wire.
  void defer(const StagedPacket& staged);

  /// The frames of the burst that are still ours, and are to be released.
  std::span<const port::RxFrame> kept_frames();
  /// The caller keeps them: they are not released with the burst.
  void forget_kept_frames() { kept_ = 0; }

  [[nodiscard]] size_t burst() const { return burst_; }
  /// True when no source filled its part of the burst: there may be nothing more to receive.
  [[nodiscard]] bool drained() const { return drained_; }
  [[nodiscard]] bool defers() const { return !deferred_.empty(); }
  [[nodiscard]] std::span<const port::RxFrame> deferred() const { return deferred_; }
  /// When frames were last asked for.
  [[nodiscard]] Instant last_received() const { return last_received_; }

  /// A copy of a frame, as if received; without data when there is no buffer, or none that is long enough.
  port::RxFrame copy_of(const std::byte* data, uint32_t length);

 private:
  /// Headers with a key that a peer sent: one of them at most is in a packet.
  static constexpr wire::HeaderSet kKeyedHeaders =
      wire::HeaderSet::of(wire::Header::kReth, wire::Header::kAtomicEth);

  void choose_source();
  [[nodiscard]] bool expects_several() const { return changes_ > 1; }
  size_t receive_ours();
  [[gnu::noinline]] StagedPacket* stage_handed(StagedPacket* next, const net::Demux& demux);
  StagedPacket* stage_frames(size_t begin, size_t end, StagedPacket* next, const net::Demux& demux);
  void count_received(std::span<const port::RxFrame> frames);
  bool stage_frame(std::span<const std::byte> frame, StagedPacket& staged, const net::Demux& demux);
  bool stage_slow_path(std::span<const std::byte> frame, StagedPacket& staged, const net::Demux& demux);
  bool stage_packet(StagedPacket& staged);
  bool stage_prediction_hit(StagedPacket& staged);
  bool complete(StagedPacket& staged);
  [[gnu::cold, gnu::noinline]] bool admit_sender(const StagedPacket& staged);
  bool stage_for_group(StagedPacket& staged);
  bool stage_for_services(StagedPacket& staged);
  bool is_for_program(const StagedPacket& staged);
  [[nodiscard]] FrameSwitch::Arrival arrival(const StagedPacket& staged) const;
  void answer_echo(std::span<const std::byte> frame);
  void receive_neighbour_message(size_t index);
  void receive_query(size_t index);
  void refer_to_body(StagedPacket& staged);
  void prefetch_region(const wire::Packet& packet);
  [[gnu::cold, gnu::noinline]] bool pass_on(const StagedPacket& staged);
  [[gnu::cold, gnu::noinline]] void note_way(const StagedPacket& staged);
  bool hand_over(size_t index, uint16_t to);
  void disown_frame(size_t index);
  void copy_to(uint16_t sibling, const port::RxFrame& frame);
  void count(Counter counter) { parts_.counters.add(counter); }
  /// Counts a drop. Always false: what was dropped is not staged.
  bool drop(Counter reason) {
    count(reason);
    return false;
  }

  const Parts parts_;
  port::FrameSource* source_;
  faults::Receiver* faults_ = nullptr;
  FrameSwitch* programs_ = nullptr;
  Instant now_{};          // of the burst
  bool services_ = false;  // they are there
  bool drained_ = false;
  size_t burst_ = 0;         // frames received in this turn ...
  size_t handed_begin_ = 0;  // ... of which [handed_begin_, handed_end_) by siblings ...
  size_t handed_end_ = 0;
  size_t staged_ = 0;                     // ... of which packets for queue pairs of ours
  size_t kept_ = 0;                       // ... of which to be released by us, but for those without data ...
  bool all_kept_ = true;                  // ... of which there are none
  Instant last_received_{INT64_MIN / 2};  // when frames were last asked for
  wire::FlowCache flow_cache_;            // of the last packet that came to ...
  const PollerQp* staged_last_ = nullptr;  // that a packet was for
  uint32_t changes_ = 0;                   // of it, in the last burst of several frames
  bool looked_ahead_ = false;       // in this burst: the queue pairs of its packets are on their way already
  PollerQp* like_entry_ = nullptr;  // of the packet in this burst that flow_cache_ has parsed last, or null
  uint64_t addresses_version_ = 0;  // ... one of these addresses
  std::array<port::RxFrame, kBurstMax> frames_;
  std::array<StagedPacket, kBurstMax> packets_;
  std::vector<port::RxFrame> deferred_;  // frames that wait for stalled queue pairs, in their order
  capture::Tap* tap_ = nullptr;
};

template <typename ReasonToDrop>
void ReceiveStage::keep_staged(ReasonToDrop reason_to_drop) {
  size_t kept = 0;
  bool follows = true;  // the one before it
  for (StagedPacket& packet : staged()) {
    if (const Counter reason = reason_to_drop(packet); reason != Counter::kCount) {
      count(reason);
      follows = false;
      continue;
    }
    if (!std::exchange(follows, true)) packet.prediction_hit = false;
    if (&packets_[kept] != &packet) packets_[kept] = packet;
    ++kept;
  }
  staged_ = kept;
}

}  // namespace uroce::engine
