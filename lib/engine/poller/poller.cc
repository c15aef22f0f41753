// The turn of a poller. Its stages stand in turn_locked(); what they do is in receive_stage.cc,
// poller_dispatch.cc, poller_copies.cc and poller_send.cc.
// It does only what it found work for, and transmits before it publishes completions. A program that is
// notified of a message may end its process at once, and the acknowledgement has left by then. Cost: a
// completion that another thread waits for comes later by the time of transmitting.
#include "engine/poller/poller.h"

#include <sched.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "base/threads/idle_limits.h"
#include "base/values/contract.h"
#include "engine/platform/eal.h"
#include "engine/platform/fault_handler.h"
#include "engine/platform/line_timer.h"
#include "engine/poller/left_turn.h"

namespace uroce::engine {

Poller::Poller(const Options& options, port::PortQueue& queue, const PollerContext& context)
    : options_(options),
      port_queue_(queue),
      port_is_shared_(queue.is_shared()),
      long_bursts_(queue.prefers_long_bursts()),
      context_(context),
      tx_(queue, time_line_claim),
      own_counters_(options.counters == nullptr ? std::make_unique<Counters>() : nullptr),
      counters_(options.counters == nullptr ? *own_counters_ : *options.counters),
      patience_(options.clock),
      placer_(options.copy_kind,
              {.engine = options.copy_engine, .patience = &patience_, .counters = &counters_}),
      completions_(options.index),
      turn_{.now = {},
            .tx = tx_,
            .placer = placer_,
            .completions = completions_,
            .regions = context.regions,
            .counters = counters_,
            .latencies = options.latencies,
            .notices = options.notices},
      timers_(kTimerTick, kTimerSlots),
      receive_({.poller_index = options.index,
                .port_queue = queue,
                .context = context,
                .counters = counters_,
                .tx = tx_,
                .looped = looped_,
                .hand_off = hand_off_,
                .moves = moves_,
                .links = options.links,
                .listeners = options.listeners}),
      commands_(kCommandsMax) {
  // An engine reads a burst while the next one is received.
  if (options.copy_engine != nullptr)
    held_.reserve(ReceiveStage::kBurstMax);
  else
    queue.leave_bodies();
}

Poller::~Poller() {
  // No thread turns the poller any more: frames that are still on their way go back to the port.
  placer_.abandon();
  port_queue_.release(held_);
  if (ahead_ || unreleased_) port_queue_.release(receive_.kept_frames());
  port_queue_.release(receive_.deferred());
  port::RxFrame frame;
  while (hand_off_.take({&frame, 1}) > 0) port_queue_.release({&frame, 1});
  while (looped_.take({&frame, 1}) > 0) port_queue_.release({&frame, 1});
}

void Poller::join(std::span<Poller* const> siblings) {
  std::vector<HandOff*> all;
  for (Poller* sibling : siblings) all.push_back(&sibling->hand_off_);
  hand_off_.join(options_.index, all);
  std::vector<QueuePairMoves*> moves;
  for (Poller* sibling : siblings) moves.push_back(&sibling->moves_);
  moves_.join(options_.index, moves);
  siblings_.assign(siblings.begin(), siblings.end());
}

TurnOutcome Poller::make_turn(Instant now, Caller caller, PollerQp* posted) {
  if (turning_on_this_thread != nullptr) [[unlikely]] {
    note_reentry(now);
    return TurnOutcome::kBusy;
  }
  if (unblock_fault_signals()) [[unlikely]]
    watch_thread_end();
  if (!lock_.begin()) return TurnOutcome::kBusy;
  turning_on_this_thread = &lock_;
  bool worked = false;
  {
    const ScopedLcoreId lcore(options_.lcore);
    advance_clock(now);
    if (caller == Caller::kApplication) posted = begin_application_turn(posted);
    worked = turn_locked(caller, posted);
  }
  turning_on_this_thread = nullptr;
  end_turn();
  return worked ? TurnOutcome::kWorked : TurnOutcome::kIdle;
}

/// Takes up what was posted. Returns `posted`, or null when that has moved to another poller.
inline PollerQp* Poller::begin_application_turn(PollerQp* posted) {
  turn_lease_.begin_owner_turn(lock_.turn_number());
  ++turn_.call;
  if (posted == nullptr) return nullptr;
  if (!posted->is_of(options_.index)) [[unlikely]] {
    forward_doorbell(*posted);
    return nullptr;
  }
  posted_turn_ = lock_.turn_number();
  if (qp::QueuePair* const used = posted->queue_pair.used(); used != nullptr) [[likely]]
    used->posted(turn_);
  activate(*posted);
  return posted;
}

void Poller::end_turn() {
  if (placer_.copying()) [[unlikely]]
    return lock_.pause();
  lock_.end();
}

TurnOutcome Poller::application_turn(Instant now, PollerQp* posted) {
  const TurnOutcome outcome = make_turn(now, Caller::kApplication, posted);
  outcome == TurnOutcome::kBusy ? turn_lease_.want() : turn_lease_.note_owner(now);
  return outcome;
}

/// The owner is there when it has made a turn since the last look, or is in one, however long that takes. A
/// sender that stepped in just then would place what it has sent itself, on the wrong CPU. Cost: threads that
/// poll both ends of a wire may wait for a time slice.
TurnOutcome Poller::partner_turn(Instant now) {
  if (turn_lease_.owner_kept(now)) return TurnOutcome::kIdle;
  const bool is_there = turn_lease_.owner_turned();
  const TurnOutcome outcome = is_there ? TurnOutcome::kIdle : turn(now);
  const bool is_in_turn = outcome == TurnOutcome::kBusy && turn_lease_.is_owners(lock_.turn_number());
  if (is_there || is_in_turn) turn_lease_.keep_owner(now + IdleLimits::kOwnerAway);
  if (!is_there && outcome != TurnOutcome::kBusy) turn_lease_.note_application(now);
  return outcome;
}

void Poller::ring(PollerQp& entry) {
  if (doorbells_.ring(entry) && options_.parker != nullptr) options_.parker->nudge();
}

bool Poller::submit(Command& command) {
  while (!commands_.push(&command)) {
    if (turn(options_.clock()) != TurnOutcome::kWorked) sched_yield();
    if (closed_.load(std::memory_order_acquire)) return false;  // pairs with close()
  }
  if (options_.parker != nullptr) options_.parker->nudge();
  while (!command.done.load(std::memory_order_acquire)) {  // pairs with take_commands()
    // Idle: the command waits for the end of copies.
    if (turn(options_.clock()) != TurnOutcome::kWorked) sched_yield();
    if (closed_.load(std::memory_order_acquire)) return command.done.load(std::memory_order_acquire);
  }
  return true;
}

void Poller::turn_left() {
  lost_.store(true, std::memory_order_relaxed);    // of interest when the device is closed
  closed_.store(true, std::memory_order_release);  // pairs with submit()
  lock_.end_for_good();
  if (options_.listeners != nullptr) options_.listeners->raise(DeviceEvent::kFatal);
}

bool Poller::close(Duration patience) {
  const Instant until = options_.clock() + patience;
  while (!lock_.begin()) {
    if (options_.clock() > until) return false;
    sched_yield();
  }
  placer_.abandon();
  hear_of_moves();  // what one that comes owes is ours to send
  receive_last();
  answer_all();
  closed_.store(true, std::memory_order_release);  // pairs with submit()
  lock_.end_for_good();
  return true;
}

/// Receives what has arrived, for a NIC would have answered it by now. No completion is published, as the
/// program polls no more. Not while a copy engine works, which is not waited for any more.
void Poller::receive_last() {
  if (options_.copy_engine != nullptr || ahead_ || !held_.empty()) return;
  bool drained = false;
  for (size_t i = 0; i < kLastBurstsMax && !drained; ++i) {
    receive();
    drained = receive_.drained();
    stage();
    dispatch();
    qp::commit_placements(turn_);
    release();
  }
}

bool Poller::has_drained(bool& looked) const {
  const bool before = std::exchange(looked, looked || !ahead_);
  return before && !ahead_ && receive_.drained() && !receive_.defers();
}

bool Poller::answer(PollerQp& entry) {
  const qp::QueuePair* const used = entry.queue_pair.used();
  if (used != nullptr && used->owes() && frames_taken(entry, port::TxBatch::kFramesMax) == 0) return true;
  return entry.queue_pair.answer(turn_, port::TxBatch::kFramesMax);
}

/// Sends the answers that are due: the application has ended, and no turn follows.
void Poller::answer_all() {
  for (size_t left = senders_.size(); left > 0 && !tx_.full(); --left)
    senders_.take().queue_pair.answer(turn_, SendScheduler::kFrames);
  transmit();
}

bool Poller::forget(PollerQp& entry) {
  // Its last doorbell may be behind those of others.
  if (Doorbells::has_rung(entry)) take_doorbells(SIZE_MAX);
  senders_.has_none(entry);
  timers_.disarm(entry);
  forget_early(entry);
  const bool stays = moves_.cancel(entry);
  return stays && !Doorbells::has_rung(entry);
}

Duration Poller::time_to_deadline() {
  if (!lock_.begin()) return {};
  Duration left{INT64_MAX};
  if (senders_.size() > waiting_ || !looped_.empty() || receive_.defers() || !tx_.empty() || ahead_ ||
      placer_.copying() || moves_.under_way()) {
    left = {};
  } else if (const Instant deadline = timers_.next_deadline(); deadline != kNever) {
    left = std::max(Duration{}, deadline - turn_.now);
  }
  // The process that a queue pair waits for does not say when it takes frames again.
  if (waiting_ > 0) left = std::min(left, kFarEndLookEvery);
  if (options_.links != nullptr && options_.links->deadline() != kNever) {
    left = std::min(left, std::max(Duration{}, options_.links->deadline() - turn_.now));
  }
  if (services_ != nullptr && services_->deadline() != kNever)
    left = std::min(left, std::max(Duration{}, services_->deadline() - turn_.now));
  if (const faults::Receiver* const faults = receive_.faults(); faults != nullptr && faults->has_delayed())
    left = std::min(left, std::max(Duration{}, faults->deadline() - turn_.now));
  left = std::min(left, completions_.time_to_due());
  end_turn();
  return left;
}

bool Poller::turn_locked(Caller caller, const PollerQp* posted) {
  work_ = 0;
  turn_.delivery = qp::Delivery::kNone;
  if (placer_.copying()) [[unlikely]] {
    if (poll_copies()) complete_burst();
  } else if (posted != nullptr && may_skip_receive(*posted)) {
    turn_is_for_ = posted;
    send();
    turn_is_for_ = nullptr;
  } else {
    // Before commands, which may be about one that has come.
    if (moves_.has_mail()) [[unlikely]]
      take_moves();
    if (!commands_.empty()) [[unlikely]]
      take_commands();
    take_doorbells(kDoorbellsPerTurn);
    if (ahead_) [[unlikely]] {
      revalidate_staged();
    } else {
      receive();
      if (ends_idle()) return false;
      stage();
      turn_.delivery = qp::AckPolicy::delivery_of(receive_.burst(), caller == Caller::kApplication);
    }
    dispatch();
    if (placer_.start_copies()) [[unlikely]] {
      hold();
    } else {
      complete_burst();
    }
  }
  return work_ > 0;
}

/// Whether a turn for a post may go without receiving: the queue pair awaits no responses, or owes the peer a
/// reply. What others have sent meanwhile can wait a little.
bool Poller::may_skip_receive(const PollerQp& posted) const {
  const qp::QueuePair* const used = posted.queue_pair.used();
  const bool looks_for_answers = used != nullptr && used->awaits_responses() && !used->owes();
  return !looks_for_answers && !ahead_ && turn_.now - receive_.last_received() < kUnreceivedMax;
}

/// Whether the turn ends after the receive stage, as most do: there is nothing to do, for timers either,
/// which may have waited for an empty receive queue.
bool Poller::ends_idle() {
  if (work_ > 0 || !senders_.empty() || !tx_.empty() || general_work_due()) return false;
  expire_timers();
  completions_.notify_due();
  return work_ == 0;
}

/// Whether poller 0 has something to do for the whole device.
bool Poller::general_work_due() const {
  return (options_.links != nullptr && options_.links->deadline() <= turn_.now) ||
         (services_ != nullptr && services_->deadline() <= turn_.now);
}

void Poller::complete_burst() {
  qp::commit_placements(
      turn_);  // before the frames it reads from go, and before pump() reads what it writes to
  expire_timers();
  send();
  // What has left is waited for, these buffers are not; and a few of them less than the call's outcome.
  unreleased_ = turn_.delivery == qp::Delivery::kCall && held_.empty();
  if (!unreleased_) release();
}

/// Sends, and then publishes completions: what was received is acknowledged before the application hears of
/// it.
void Poller::send() {
  if (--until_measured_ == 0) [[unlikely]]
    return send_measured();
  send_frames();
  publish();
  completions_.notify_due();
  if (raised_ != nullptr) [[unlikely]]
    raise_events();
}

bool Poller::send_frames() {
  if (!senders_.empty() || general_work_due()) pump();
  // Where a burst is a system call, what follows goes with it: nearly all of that time is behind the reply.
  if (long_bursts_ && std::exchange(turn_.answers_follow, false)) [[unlikely]]
    pump();
  const bool any = !tx_.empty();
  if (any) transmit();
  if (std::exchange(turn_.answers_follow, false)) [[unlikely]] {
    pump();
    transmit();
  }
  return any;
}

size_t Poller::receive() {
  if (std::exchange(unreleased_, false)) release();
  const size_t burst = receive_.receive(turn_.now);
  work_ += burst;
  if (receive_.programs() != nullptr) [[unlikely]]
    work_ += receive_.programs()->collect(turn_.now, tx_);
  return burst;
}

void Poller::advance_clock(Instant now) {
  completions_.set_time(now);
  if (last_turn_.ns == INT64_MIN) {
    turn_.now = last_drained_ = now;
  } else {
    // A thread may have read the clock before another one made a turn.
    const Duration gap = now - last_turn_;
    if (gap > kClockStepMax) [[unlikely]]
      counters_.add(Counter::kUnattendedMs, static_cast<uint64_t>(gap.ns / milliseconds(1).ns));
    turn_.now = turn_.now + std::clamp(gap, Duration{}, kClockStepMax);
  }
  last_turn_ = std::max(last_turn_, now);
}

void Poller::take_commands() {
  Command* command = nullptr;
  for (size_t i = 0; i < kCommandsMax && commands_.pop(command); ++i) {
    flush_completions_if_full();
    command->run(command->context, turn_);
    ++work_;
    // A thread that waits sees the outcome complete, placed bytes and completions included.
    publish();
    raise_events();
    command->done.store(true,
                        std::memory_order_release);  // pairs with submit(); the command is gone after it
  }
}

void Poller::take_doorbells(size_t count_max) {
  for (size_t i = 0; i < count_max; ++i) {
    Doorbell* const doorbell = doorbells_.take();
    if (doorbell == nullptr) return;
    auto& entry = static_cast<PollerQp&>(*doorbell);
    if (!entry.is_of(options_.index)) [[unlikely]] {
      forward_doorbell(entry);
      continue;
    }
    if (qp::QueuePair* const used = entry.queue_pair.used(); used != nullptr) used->posted(turn_);
    activate(entry);
  }
}

}  // namespace uroce::engine
