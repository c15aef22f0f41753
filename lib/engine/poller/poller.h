#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/counters/counters.h"
#include "base/counters/latencies.h"
#include "base/tables/timer_wheel.h"
#include "base/threads/mpsc_ring.h"
#include "copy/engine.h"
#include "copy/placer.h"
#include "engine/platform/clock.h"
#include "engine/platform/parker.h"
#include "engine/poller/copy_patience.h"
#include "engine/poller/device_events.h"
#include "engine/poller/doorbells.h"
#include "engine/poller/early_packets.h"
#include "engine/poller/gsi.h"
#include "engine/poller/hand_off.h"
#include "engine/poller/limits.h"
#include "engine/poller/loop_ring.h"
#include "engine/poller/multicast_groups.h"
#include "engine/poller/poller_context.h"
#include "engine/poller/poller_qp.h"
#include "engine/poller/queue_pair_moves.h"
#include "engine/poller/receive_stage.h"
#include "engine/poller/send_scheduler.h"
#include "engine/poller/turn_lease.h"
#include "engine/poller/turn_lock.h"
#include "net/links.h"
#include "port/port.h"
#include "port/tx_batch.h"
#include "qp/connection/turn.h"
#include "queue/completion_queue.h"

namespace uroce::engine {

enum class TurnOutcome : uint8_t {
  kBusy,    // another thread is turning the poller
  kIdle,    // there was nothing to do
  kWorked,  // something was done; there may be more
};

/// Owns one queue of the port, its queue pairs and their timers. All work is done in turns, by any thread
/// that holds the turn lock. Other threads leave commands, doorbells and frames in rings.
class Poller final : private TurnOwner {
 public:
  struct Options {
    uint16_t index = 0;           // within the device; also the lane of completion queues
    uint32_t lcore = UINT32_MAX;  // the lcore id of the thread during a turn; kNoLcore: none
    copy::Kind copy_kind = copy::Kind::kAuto;
    copy::Engine* copy_engine = nullptr;  // for memory of the stack's own; not owned
    Instant (*clock)() = clock_now;       // for turns that the poller makes of its own accord
    Parker* parker = nullptr;
    DeviceListeners* listeners = nullptr;
    net::Links* links = nullptr;            // that of the device, for poller 0; only touched in turns
    Counters* counters = nullptr;           // in memory that outlives the poller; null: of its own
    Latencies* latencies = nullptr;         // likewise; null: none are kept
    qp::NoticeListener* notices = nullptr;  // likewise; null: none are wanted
  };

  Poller(const Options& options, port::PortQueue& queue, const PollerContext& context);
  ~Poller();
  Poller(const Poller&) = delete;
  Poller& operator=(const Poller&) = delete;

  /// Set-up: the pollers of the device by index, this one included. Before the first turn.
  void join(std::span<Poller* const> siblings);

  [[nodiscard]] uint16_t index() const { return options_.index; }
  /// The pollers of the device by index, this one included.
  [[nodiscard]] std::span<Poller* const> siblings() const { return siblings_; }
  [[nodiscard]] TurnLock& lock() { return lock_; }
  [[nodiscard]] const Counters& counters() const { return counters_; }

  // Any thread.

  /// One turn, if no other thread is in one.
  TurnOutcome turn(Instant now) { return make_turn(now, Caller::kAny, nullptr); }
  /// One turn of an application's thread, which has the right of way before the background thread. `posted`:
  /// a queue pair of this poller with new work, taken up in this turn.
  TurnOutcome application_turn(Instant now, PollerQp* posted = nullptr);
  /// One turn of a thread that uses the device at the other end of a wire inside the process, unless this
  /// end is being looked after by its own user.
  TurnOutcome partner_turn(Instant now);

  /// Leaves a note that `entry` has new work.
  void ring(PollerQp& entry);

  /// Runs `function(qp::Turn&)` in a turn and returns after it; turns the poller itself when no other thread
  /// does. False: the poller is closed and nothing was run.
  template <typename Function>
  bool run(Function function) {
    Command command{[](void* context, qp::Turn& turn) { (*static_cast<Function*>(context))(turn); },
                    &function};
    return submit(command);
  }

  /// A thread has left a turn in the middle: no turn will ever be made again, and nothing that the poller has
  /// is touched any more, not even to give it back.
  [[nodiscard]] bool lost() const { return lost_.load(std::memory_order_relaxed); }

  /// No turn will ever be made again: for the end of a process that did not close us. False when the turn
  /// that was under way did not end in time.
  bool close(Duration patience);

  // Inside a turn (commands).

  /// The queue pair has something to do: it is pumped in this turn or the next.
  void activate(PollerQp& entry) { senders_.has_work(entry); }
  /// The queue pair was posted to, or has more to do, and waits for its pump; that comes with this turn.
  bool has_work(PollerQp& entry) {
    if (Doorbells::has_rung(entry)) take_doorbells(SIZE_MAX);
    return entry.active;
  }
  /// Before the turn receives: whether all has been received that had arrived when the first of several turns
  /// asked. `looked` is false then, and the caller keeps it from turn to turn.
  [[nodiscard]] bool has_drained(bool& looked) const;
  /// Sends what the queue pair owes its peer. True: it owes more, or the peer's process has no room for it.
  [[nodiscard]] bool answer(PollerQp& entry);
  /// The poller forgets the queue pair. False: once more in a later turn, because its last doorbell is behind
  /// that of a thread which is still about to ring, or at another poller, or that one expects the queue pair.
  [[nodiscard]] bool forget(PollerQp& entry);
  /// What came early for the queue pair was for its last life.
  void forget_early(PollerQp& entry) {
    early_.forget(entry.early_requests);
    early_.forget(entry.early_responses);
  }
  /// Poller 0: the general services that it turns from now on; null: none.
  void set_services(Gsi* services) { services_ = services; }
  /// Poller 0: the programs that share the device from now on; null: none.
  void set_programs(FrameSwitch* programs) { receive_.set_programs(programs); }
  /// Faults that are injected into received packets from now on; null: none.
  void set_faults(faults::Receiver* faults) { receive_.set_faults(faults); }
  /// Frames that are received and sent are captured from now on; null: no more.
  void tap(capture::Tap* tap);
  /// `entry` has events to be raised at the end of the turn.
  void note_events(PollerQp& entry) { entry.next_raised = std::exchange(raised_, &entry); }

  /// Which threads have turned the poller, and when.
  [[nodiscard]] TurnLease& turn_lease() { return turn_lease_; }
  /// How long nothing happens unless a frame, a doorbell or a command comes; kNever for ever. Takes the turn
  /// lock.
  [[nodiscard]] Duration time_to_deadline();

  /// Frames waiting for other pollers after the last turn of this one: bit i for sibling i. Cleared by
  /// reading.
  uint64_t take_handed_to() { return hand_off_.take_announced(); }

 private:
  static constexpr size_t kCommandsMax = 64;  // waiting; also the most in one turn
  static constexpr size_t kDoorbellsPerTurn = 256;
  static constexpr size_t kExpiredMax = 64;  // per turn
  static constexpr Duration kTimerTick = microseconds(16);
  static constexpr size_t kTimerSlots = 256;
  static constexpr Duration kUndrainedMax =
      milliseconds(10);  // timers wait no longer for an empty receive queue
  /// A turn for what is posted need not look at the port when the last one that did is not so long ago.
  static constexpr Duration kUnreceivedMax = microseconds(2);
  /// How often a process that takes no frames is looked at, at least, when nothing else happens.
  static constexpr Duration kFarEndLookEvery = milliseconds(1);
  /// How often latencies are measured that need looks at the clock. Prime, as turns may alternate.
  static constexpr uint32_t kSendsPerMeasured = texts_of(Latency::kPostToWire).sampled_of;
  /// In a burst of no more packets each queue pair is asked whether it has anything to send.
  static constexpr size_t kQuietBurstMax = 4;
  /// A poller that closes receives so many bursts: more can only be a peer that goes on sending.
  static constexpr size_t kLastBurstsMax = 64;

  struct Command {
    void (*run)(void* context, qp::Turn& turn);
    void* context;
    std::atomic<bool> done{false};
  };
  enum class Caller : uint8_t { kAny, kApplication };

  void turn_left() override;
  bool submit(Command& command);

  // The turn and its stages, in order.
  TurnOutcome make_turn(Instant now, Caller caller, PollerQp* posted);
  PollerQp* begin_application_turn(PollerQp* posted);
  bool turn_locked(Caller caller, const PollerQp* posted);
  void end_turn();
  void advance_clock(Instant now);
  void take_commands();
  void take_doorbells(size_t count_max);
  size_t receive();
  void stage() { receive_.stage(turn_.now, services_ != nullptr); }
  void dispatch();
  bool ends_idle();
  [[nodiscard]] bool may_skip_receive(const PollerQp& posted) const;
  [[nodiscard]] bool general_work_due() const;
  void complete_burst();
  void send();
  bool send_frames();
  void release();
  void expire_timers();
  void pump();
  [[nodiscard, gnu::cold, gnu::noinline]] bool begin_use_by_post(PollerQp& entry);
  void note_sent(PollerQp& entry, size_t frames, bool more);
  [[nodiscard]] uint32_t frames_taken(const PollerQp& entry, uint32_t budget);
  void transmit();
  void receive_last();
  void answer_all();

  // Queue pairs that move (poller_moves.cc).
  [[gnu::cold, gnu::noinline]] void take_moves();
  void hear_of_moves();
  void note_ready(PollerQp& entry, uint64_t frames);
  void give_leaving();
  [[nodiscard]] bool may_give(const PollerQp& entry, const Poller& to) const;
  void give(PollerQp& entry, uint16_t sibling);
  void adopt(PollerQp& entry, uint16_t from, const MoveMessage& given);
  [[gnu::cold, gnu::noinline]] void forward_doorbell(PollerQp& entry);
  [[gnu::cold, gnu::noinline]] void send_measured();

  // Parts of stages (poller_dispatch.cc).
  /// The transport that receives the packet for the queue pair; nullptr: the packet was counted, and is gone.
  [[nodiscard]] qp::QueuePair* transport_for(const wire::Packet& packet, PollerQp& entry) {
    if (entry.queue_pair.used() == nullptr && !begin_use_by_packet(packet, entry)) [[unlikely]]
      return nullptr;
    return entry.queue_pair.used();
  }
  [[nodiscard, gnu::cold, gnu::noinline]] bool begin_use_by_packet(const wire::Packet& packet,
                                                                   PollerQp& entry);
  void buffer_out_of_order(const StagedPacket& staged, qp::Receipt receipt);
  [[gnu::cold, gnu::noinline]] void receive_passed(PollerQp& entry, const wire::Packet& packet);
  [[gnu::cold, gnu::noinline]] void receive_among_early(const StagedPacket& staged,
                                                        qp::QueuePair& queue_pair);
  [[gnu::cold, gnu::noinline]] void receive_early(PollerQp& entry);
  void receive_early_requests(PollerQp& entry);
  void receive_early_responses(PollerQp& entry);
  bool receive_early(PollerQp& entry, EarlyList& of, const wire::Packet* due);
  [[gnu::cold, gnu::noinline]] bool refuse_on_purpose(const StagedPacket& staged);
  void deliver_to_group(const wire::Packet& packet, const MulticastGroup& group);
  void deliver_to_services(const wire::Packet& packet);
  void count(Counter counter) { counters_.add(counter); }

  // While a copy engine is at work (poller_copies.cc).
  void hold();
  bool poll_copies();
  void stage_next_burst();
  void revalidate_staged();

  // Parts of stages (poller_send.cc).
  /// Room for the two completion queues that one call of a queue pair may touch.
  void flush_completions_if_full() {
    if (completions_.full()) [[unlikely]]
      publish();
  }
  void publish();
  void raise_events();
  /// Keeps `in_error` in step. True when it changed: what was posted meanwhile must be seen to once more.
  bool note_error_state(PollerQp& entry);
  void rearm(PollerQp& entry);
  size_t dispose(std::span<port::TxFrame> frames);
  void loop_copy(const port::TxFrame& frame);

  TurnLock lock_{this};
  const Options options_;
  port::PortQueue& port_queue_;
  const bool port_is_shared_;
  const bool long_bursts_;
  const PollerContext& context_;

  // Belongs to the turn.
  port::TxBatch tx_;
  const std::unique_ptr<Counters> own_counters_;  // unless they are elsewhere
  Counters& counters_;                            // which others read
  CopyPatience patience_;
  copy::Placer placer_;
  queue::CompletionBatch completions_;
  qp::Turn turn_;
  Instant last_turn_{INT64_MIN};
  Instant last_drained_{};
  bool drained_ = false;
  size_t work_ = 0;  // done in this turn
  uint32_t until_measured_ = kSendsPerMeasured;
  uint64_t posted_turn_ = 0;  // number of the last turn that was made for a post
  TimerWheel timers_;
  SendScheduler senders_{long_bursts_};
  const PollerQp* turn_is_for_ = nullptr;  // that posted, if the turn is for nothing else
  size_t waiting_ = 0;                     // senders whose peer's process takes no frames
  Gsi* services_ = nullptr;
  PollerQp* raised_ = nullptr;  // the last of those with events
  LoopRing looped_;
  HandOff hand_off_;
  QueuePairMoves moves_{hand_off_};
  std::vector<Poller*> siblings_;  // by index, this one included
  EarlyPackets early_;
  ReceiveStage receive_;
  bool unreleased_ = false;  // the frames of its burst are given back before the next one is received
  bool ahead_ = false;       // what it has staged waits for the end of copies, or for its turn
  Instant copying_since_{};
  std::vector<port::RxFrame> held_;        // of the burst that is being copied
  port::PortQueue* queue_ = &port_queue_;  // of turns: the port's, or what captures its frames

  // Shared.
  MpscRing<Command*> commands_;
  Doorbells doorbells_;
  std::atomic<bool> closed_{false};
  std::atomic<bool> lost_{false};
  TurnLease turn_lease_;
};

}  // namespace uroce::engine
