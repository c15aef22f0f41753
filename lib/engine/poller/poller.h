#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/counters.h"
#include "base/mpsc_ring.h"
#include "base/spsc_ring.h"
#include "base/timer_wheel.h"
#include "copy/engine.h"
#include "copy/placer.h"
#include "engine/platform/clock.h"
#include "engine/platform/parker.h"
#include "engine/poller/address_table.h"
#include "engine/poller/copy_patience.h"
#include "engine/poller/device_events.h"
#include "engine/poller/general_services.h"
#include "engine/poller/limits.h"
#include "engine/poller/multicast_groups.h"
#include "engine/poller/queue_pair_entry.h"
#include "engine/poller/queue_pair_table.h"
#include "engine/poller/turn_lock.h"
#include "mem/region_table.h"
#include "net/links.h"
#include "port/port.h"
#include "port/tx_batch.h"
#include "qp/turn.h"
#include "queue/completion_queue.h"
#include "wire/flow.h"
#include "wire/packet.h"

namespace uroce::engine {

/// What the pollers of one device share and only read. Outlives them.
struct PollerContext {
  mem::RegionTable& regions;
  const QueuePairTable& queue_pairs;
  const MulticastGroups& groups;
  const AddressTable& addresses;
};

enum class TurnOutcome : uint8_t {
  kBusy,    // somebody else is turning the poller
  kIdle,    // there was nothing to do
  kWorked,  // something was done; there may be more
};

/// Owns one queue of the port, the queue pairs that were given to it and their timers. Everything happens in
/// turns; whichever thread makes one is the poller for its length. Other threads leave commands, doorbells
/// and frames in rings.
class Poller {
 public:
  struct Options {
    uint16_t index = 0;           // within the device; also the lane of completion queues
    uint32_t lcore = UINT32_MAX;  // worn for each turn; kNoLcore: none
    copy::Kind copy_kind = copy::Kind::kAuto;
    copy::Engine* copy_engine = nullptr;  // for memory of the stack's own; not owned
    Instant (*clock)() = clock_now;       // for turns that the poller makes of its own accord
    Parker* parker = nullptr;
    DeviceListeners* listeners = nullptr;
    net::Links* links = nullptr;  // that of the device, for poller 0; only touched in turns
  };

  Poller(const Options& options, port::PortQueue& queue, const PollerContext& context);
  ~Poller();
  Poller(const Poller&) = delete;
  Poller& operator=(const Poller&) = delete;

  /// Set-up: tells the poller who its siblings are, itself included, by index. Before the first turn.
  void join(std::span<Poller* const> siblings);

  [[nodiscard]] uint16_t index() const { return options_.index; }
  [[nodiscard]] TurnLock& lock() { return lock_; }
  [[nodiscard]] const Counters& counters() const { return counters_; }

  // Any thread.

  /// One turn, if nobody else is at it.
  TurnOutcome turn(Instant now) { return make_turn(now, Caller::kAny, nullptr); }
  /// The same for an application's thread: it has the right of way before the background thread. `posted`: a
  /// queue pair of this poller with new work, taken up in this turn.
  TurnOutcome application_turn(Instant now, QueuePairEntry* posted = nullptr);
  /// The same for a thread that uses the device at the other end of a wire inside the process, unless this
  /// end is being looked after by its own user.
  TurnOutcome partner_turn(Instant now);

  /// Leaves a note that `entry` has new work.
  void ring(QueuePairEntry& entry);

  /// Runs `function(qp::Turn&)` in a turn and returns after it; turns the poller itself when nobody does.
  /// False: the poller is closed and nothing was run.
  template <typename Function>
  bool run(Function function) {
    Command command{[](void* context, qp::Turn& turn) { (*static_cast<Function*>(context))(turn); },
                    &function};
    return submit(command);
  }

  /// No turn will ever be made again: for the end of a process that did not close us. False when the turn
  /// that was under way did not end in time.
  bool close(Duration patience);

  // Inside a turn (commands).

  /// The queue pair has something to do: it is pumped in this turn or the next.
  void activate(QueuePairEntry& entry) { active_.push_back(entry); }
  /// The poller forgets the queue pair.
  void forget(QueuePairEntry& entry);
  /// Poller 0's, from now on; null: no more.
  void attend(GeneralServices* services) { services_ = services; }
  /// It has events to be passed on at the end of the turn.
  void note_events(QueuePairEntry& entry) { entry.next_raised = std::exchange(raised_, &entry); }

  // The background thread's view of the application's turns.
  [[nodiscard]] Instant application_turned() const {
    return {application_turn_ns_.load(std::memory_order_relaxed)};
  }
  /// True, once, when the application found the poller busy: it is back.
  bool application_waits() {
    return wanted_.load(std::memory_order_relaxed) && wanted_.exchange(false, std::memory_order_relaxed);
  }
  void note_application(Instant now) { application_turn_ns_.store(now.ns, std::memory_order_relaxed); }
  /// Grows with every turn that did something.
  [[nodiscard]] uint64_t works() const { return works_.load(std::memory_order_relaxed); }
  /// How long nothing happens unless a frame, a doorbell or a command comes; kNever for ever. Takes the turn
  /// lock.
  [[nodiscard]] Duration time_to_deadline();

  /// Frames waiting for other pollers after the last turn of this one: bit i for sibling i. Cleared by
  /// reading.
  uint64_t take_handed_to() { return handed_to_.exchange(0, std::memory_order_relaxed); }

 private:
  static constexpr size_t kSourceFramesMax =
      32;  // per turn from the port, from siblings and from ourselves, each
  /// For queue pairs that are stalled; all of them are looked at again in the next turn, before newer ones.
  static constexpr size_t kDeferredFramesMax = 256;
  static constexpr size_t kBurstMax = kDeferredFramesMax + 3 * kSourceFramesMax;
  static constexpr size_t kLoopFramesMax = 1024;
  static constexpr size_t kHandOffFramesMax = 1024;
  static constexpr size_t kCommandsMax = 64;  // waiting; also the most in one turn
  static constexpr size_t kDoorbellsMax = Limits::kQueuePairs;
  static constexpr size_t kDoorbellsPerTurn = 256;
  static constexpr size_t kExpiredMax = 64;    // per turn
  static constexpr uint32_t kPumpFrames = 16;  // per queue pair and turn
  static constexpr Duration kTimerTick = microseconds(16);
  static constexpr size_t kTimerSlots = 1024;
  static constexpr Duration kUndrainedMax =
      milliseconds(10);  // timers wait no longer for an empty receive queue
  static constexpr Duration kOwnerAwayMin = microseconds(20);  // see partner_turn()
  /// A turn for what is posted need not look at the port when the last one that did is not so long ago.
  static constexpr Duration kUnreceivedMax = microseconds(2);
  /// In a burst of more frames acknowledgements leave at once: the peer may wait for them to go on sending.
  static constexpr size_t kQuietBurstMax = 4;

  struct Command {
    void (*run)(void* context, qp::Turn& turn);
    void* context;
    std::atomic<bool> done{false};
  };
  /// A received frame on its way through the stages.
  struct Staged {
    wire::Packet packet;
    QueuePairEntry* entry;        // for which it is, or nullptr:
    const MulticastGroup* group;  // of whose members it is for ours, or nullptr: for the general services
    uint32_t frame;               // its frame, among frames_
  };

  /// Headers with a key that a peer sent: one of them at most is in a packet.
  static constexpr wire::HeaderSet kKeyedHeaders =
      wire::HeaderSet::of(wire::Header::kReth, wire::Header::kAtomicEth);

  enum class Caller : uint8_t { kAny, kApplication };

  bool submit(Command& command);

  // The turn and its stages, in order.
  TurnOutcome make_turn(Instant now, Caller caller, QueuePairEntry* posted);
  void begin_application_turn(QueuePairEntry* posted);
  bool turn_locked(Caller caller, const QueuePairEntry* posted);
  void end_turn();
  void advance_clock(Instant now);
  void take_commands();
  void take_doorbells(size_t count_max);
  void receive();
  void stage();
  bool stage_frame(std::span<const std::byte> frame, Staged& staged, const net::Demux& demux);
  bool stage_slow_path(std::span<const std::byte> frame, Staged& staged, const net::Demux& demux);
  bool stage_packet(Staged& staged);
  bool stage_for_group(Staged& staged);
  bool stage_for_services(Staged& staged);
  void answer_echo(std::span<const std::byte> frame);
  void receive_neighbour_message(size_t index);
  [[nodiscard]] bool is_intact(size_t number) const;
  void dispatch();
  bool ends_idle();
  [[nodiscard]] bool may_skip_receive(const QueuePairEntry& posted) const;
  [[nodiscard]] bool general_work_due() const;
  void complete_burst();
  void send();
  void release();
  void expire_timers();
  void pump();
  void transmit();
  void answer_all();

  // Parts of stages (receive).
  size_t receive_ours();
  void count_received(std::span<const port::RxFrame> frames);
  size_t take_looped(std::span<port::RxFrame> frames);
  size_t take_handed_over(std::span<port::RxFrame> frames);
  void prefetch_region(const wire::Packet& packet);
  bool hand_over(size_t index, uint16_t to);
  void disown_frame(size_t index);
  port::RxFrame copy_of(const std::byte* data, uint32_t length);
  void copy_to(uint16_t sibling, const port::RxFrame& frame);
  void show(const wire::Packet& packet, const MulticastGroup& group);
  void serve(const wire::Packet& packet);
  void defer(const Staged& staged);
  std::span<const port::RxFrame> kept_frames();
  void count(Counter counter) { counters_.add(counter); }
  /// False: what was dropped is not staged.
  bool drop(Counter reason) {
    count(reason);
    return false;
  }

  // While a copy engine is at work.
  void hold();
  bool poll_copies();
  void stage_next_burst();
  void revalidate_staged();
  template <typename ReasonToDrop>
  void keep_staged(ReasonToDrop reason_to_drop);

  // Parts of stages (queue pairs).
  /// Room for the two completion queues that one call of a queue pair may touch.
  void flush_completions_if_full() {
    if (completions_.full()) [[unlikely]]
      publish();
  }
  void publish();
  void raise_events();
  /// Keeps `in_error` in step. True when it changed: what was posted meanwhile must be seen to once more.
  static bool note_error_state(QueuePairEntry& entry);
  void rearm(QueuePairEntry& entry);
  size_t dispose(std::span<port::TxFrame> frames);
  void loop_copy(const port::TxFrame& frame);

  TurnLock lock_;
  const Options options_;
  port::PortQueue& port_queue_;
  const PollerContext& context_;

  // Belongs to the turn.
  port::TxBatch tx_;
  Counters counters_;  // which others read
  CopyPatience patience_;
  copy::Placer placer_;
  queue::CompletionBatch completions_;
  qp::Turn turn_;
  Instant last_turn_{INT64_MIN};
  Instant last_drained_{};
  bool drained_ = false;
  size_t work_ = 0;
  TimerWheel timers_;
  ActiveList active_;
  GeneralServices* services_ = nullptr;
  QueuePairEntry* raised_ = nullptr;  // the last of those with events
  size_t burst_ = 0;                  // frames received in this turn ...
  size_t handed_begin_ = 0;           // ... of which [handed_begin_, handed_end_) by siblings ...
  size_t handed_end_ = 0;
  size_t staged_ = 0;             // ... of which packets for queue pairs of ours
  size_t kept_ = 0;               // ... of which to be released by us, but for those without data ...
  bool all_kept_ = true;          // ... of which there are none
  uint64_t handed_in_burst_ = 0;  // bit i: frames went to sibling i
  bool ahead_ = false;            // all this is of a burst that waits for the end of copies, or for its turn
  Instant copying_since_{};
  Instant last_received_{INT64_MIN / 2};  // when frames were last asked for
  wire::FlowCache flow_cache_;            // of the last packet that came to ...
  uint64_t addresses_version_ = 0;        // ... one of these addresses
  std::array<port::RxFrame, kBurstMax> frames_;
  std::array<Staged, kBurstMax> packets_;
  std::vector<port::RxFrame> deferred_;  // frames that wait for stalled queue pairs, in their order
  std::vector<port::RxFrame> held_;      // of the burst that is being copied
  std::vector<port::RxFrame> looped_;    // ring of frames to ourselves
  size_t looped_head_ = 0;
  size_t looped_count_ = 0;
  std::vector<Poller*> siblings_;
  size_t next_sibling_ = 0;  // whose frames come first in the next turn

  // Shared.
  MpscRing<Command*> commands_;
  MpscRing<QueuePairEntry*> doorbells_;
  std::vector<std::unique_ptr<SpscRing<port::RxFrame>>>
      from_sibling_;  // by the sender's index; none from ourselves
  alignas(64) std::atomic<int64_t> application_turn_ns_{INT64_MIN / 2};
  std::atomic<int64_t> owner_turn_ns_{INT64_MIN / 2};
  std::atomic<bool> wanted_{false};
  std::atomic<bool> closed_{false};
  std::atomic<uint64_t> works_{0};
  std::atomic<uint64_t> handed_to_{0};
  /// On a line of its own: who owns the poller writes to the others' with each turn, and would lose it to
  /// each poll at the other end of the wire.
  alignas(64) std::atomic<int64_t> owner_there_until_ns_{INT64_MIN};
  std::atomic<int64_t> owner_turn_seen_ns_{INT64_MIN / 2};  // owner_turn_ns_ when they last looked
};

}  // namespace uroce::engine
