// The turn of a poller. Its stages stand in turn_locked(); those that receive are in poller_receive.cc.
#include "engine/poller/poller.h"

#include <sched.h>

#include <algorithm>
#include <cassert>
#include <optional>

#include "engine/platform/eal.h"
#include "engine/platform/fault_handler.h"

namespace uroce::engine {

Poller::Poller(const Options& options, port::PortQueue& queue, const PollerContext& context)
    : options_(options),
      port_queue_(queue),
      context_(context),
      tx_(queue),
      patience_(options.clock),
      placer_(options.copy_kind,
              {.engine = options.copy_engine, .patience = &patience_, .counters = &counters_}),
      completions_(options.index),
      turn_{{}, tx_, placer_, completions_, context.regions, counters_},
      timers_(kTimerTick, kTimerSlots),
      looped_(kLoopFramesMax),
      commands_(kCommandsMax),
      doorbells_(kDoorbellsMax) {
  deferred_.reserve(kDeferredFramesMax);
  if (options.copy_engine != nullptr) held_.reserve(kBurstMax);
}

Poller::~Poller() {
  // Nobody turns the poller any more: frames that are still on their way go back to the port.
  placer_.abandon();
  port_queue_.release(held_);
  if (ahead_) port_queue_.release(kept_frames());
  port::RxFrame frame;
  for (const auto& ring : from_sibling_) {
    while (ring != nullptr && ring->pop(frame)) port_queue_.release({&frame, 1});
  }
  port_queue_.release(deferred_);
  for (; looped_count_ > 0; --looped_count_) {
    port_queue_.release({&looped_[looped_head_], 1});
    looped_head_ = (looped_head_ + 1) % kLoopFramesMax;
  }
}

void Poller::join(std::span<Poller* const> siblings) {
  siblings_.assign(siblings.begin(), siblings.end());
  from_sibling_.resize(siblings.size());
  for (size_t i = 0; i < siblings.size(); ++i) {
    if (siblings[i] != this) from_sibling_[i] = std::make_unique<SpscRing<port::RxFrame>>(kHandOffFramesMax);
  }
}

TurnOutcome Poller::make_turn(Instant now, Caller caller, QueuePairEntry* posted) {
  assert(turning_on_this_thread == nullptr);
  unblock_fault_signals();
  if (!lock_.begin()) return TurnOutcome::kBusy;
  turning_on_this_thread = &lock_;
  bool worked = false;
  {
    const ScopedLcoreId lcore(options_.lcore);
    advance_clock(now);
    if (caller == Caller::kApplication) begin_application_turn(posted);
    worked = turn_locked(caller, posted);
  }
  turning_on_this_thread = nullptr;
  end_turn();
  return worked ? TurnOutcome::kWorked : TurnOutcome::kIdle;
}

inline void Poller::begin_application_turn(QueuePairEntry* posted) {
  ++turn_.call;
  if (posted == nullptr) return;
  posted->queue_pair.posted(turn_);
  activate(*posted);
}

void Poller::end_turn() {
  if (placer_.copying()) [[unlikely]]
    return lock_.pause();
  lock_.end();
}

TurnOutcome Poller::application_turn(Instant now, QueuePairEntry* posted) {
  const TurnOutcome outcome = make_turn(now, Caller::kApplication, posted);
  // Relaxed, like all of these: hints for the background thread, no data hangs on them.
  if (outcome == TurnOutcome::kBusy) {
    if (!wanted_.load(std::memory_order_relaxed)) wanted_.store(true, std::memory_order_relaxed);
  } else {
    note_application(now);
    owner_turn_ns_.store(now.ns, std::memory_order_relaxed);
  }
  return outcome;
}

/// The owner is there when he has made a turn since somebody looked, or is in one, however long that takes:
/// whoever stepped in just then would take the frames that come next to the wrong CPU.
TurnOutcome Poller::partner_turn(Instant now) {
  // Relaxed, all of them: hints.
  if (now.ns < owner_there_until_ns_.load(std::memory_order_relaxed)) return TurnOutcome::kIdle;
  const int64_t turned_ns = owner_turn_ns_.load(std::memory_order_relaxed);
  const bool is_there = turned_ns != owner_turn_seen_ns_.load(std::memory_order_relaxed);
  if (is_there) owner_turn_seen_ns_.store(turned_ns, std::memory_order_relaxed);
  const TurnOutcome outcome = is_there ? TurnOutcome::kIdle : turn(now);
  if (is_there || outcome == TurnOutcome::kBusy)
    owner_there_until_ns_.store((now + kOwnerAwayMin).ns, std::memory_order_relaxed);
  if (!is_there && outcome != TurnOutcome::kBusy) note_application(now);
  return outcome;
}

void Poller::ring(QueuePairEntry& entry) {
  if (entry.rung.exchange(true, std::memory_order_acq_rel)) return;  // pairs with take_doorbells()
  [[maybe_unused]] const bool room = doorbells_.push(&entry);
  assert(room);  // each queue pair is in it at most once, and there are fewer than slots
  if (options_.parker != nullptr) options_.parker->nudge();
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

bool Poller::close(Duration patience) {
  const Instant until = options_.clock() + patience;
  while (!lock_.begin()) {
    if (options_.clock() > until) return false;
    sched_yield();
  }
  placer_.abandon();
  answer_all();
  closed_.store(true, std::memory_order_release);  // pairs with submit()
  lock_.end_for_good();
  return true;
}

/// Whoever was told of the last message may be gone before its acknowledgement has left.
void Poller::answer_all() {
  for (size_t left = active_.size(); left > 0 && !tx_.full(); --left)
    active_.pop_front().queue_pair.answer(turn_, kPumpFrames);
  transmit();
}

void Poller::forget(QueuePairEntry& entry) {
  // Its last doorbell may still be in the ring, behind others.
  take_doorbells(kDoorbellsMax);
  active_.remove(entry);
  timers_.disarm(entry);
}

Duration Poller::time_to_deadline() {
  if (!lock_.begin()) return {};
  Duration left{INT64_MAX};
  if (!active_.empty() || looped_count_ > 0 || !deferred_.empty() || !tx_.frames().empty() || ahead_ ||
      placer_.copying()) {
    left = {};
  } else if (const Instant deadline = timers_.next_deadline(); deadline != kNever) {
    left = std::max(Duration{}, deadline - turn_.now);
  }
  if (options_.links != nullptr && options_.links->deadline() != kNever) {
    left = std::min(left, std::max(Duration{}, options_.links->deadline() - turn_.now));
  }
  if (services_ != nullptr && services_->deadline() != kNever)
    left = std::min(left, std::max(Duration{}, services_->deadline() - turn_.now));
  left = std::min(left, completions_.time_to_due());
  end_turn();
  return left;
}

bool Poller::turn_locked(Caller caller, const QueuePairEntry* posted) {
  work_ = 0;
  turn_.replies_may_follow = false;
  if (placer_.copying()) [[unlikely]] {
    if (poll_copies()) complete_burst();
  } else if (posted != nullptr && may_skip_receive(*posted)) {
    send();
  } else {
    take_commands();
    take_doorbells(kDoorbellsPerTurn);
    if (ahead_) [[unlikely]] {
      revalidate_staged();
    } else {
      receive();
      if (ends_idle()) return false;
      stage();
      turn_.replies_may_follow = caller == Caller::kApplication && burst_ <= kQuietBurstMax;
    }
    dispatch();
    if (placer_.start_copies()) [[unlikely]] {
      hold();
    } else {
      complete_burst();
    }
  }
  // Relaxed: a hint for the background thread.
  if (work_ > 0) works_.store(works_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  return work_ > 0;
}

/// Who has nothing under way posts to be answered later. What others sent meanwhile can wait a little.
bool Poller::may_skip_receive(const QueuePairEntry& posted) const {
  return !posted.queue_pair.awaits_responses() && !ahead_ && turn_.now - last_received_ < kUnreceivedMax;
}

/// As most turns do: they end here. After the receiving stage, whose burst the timers may have waited for.
bool Poller::ends_idle() {
  if (work_ > 0 || !active_.empty() || !tx_.frames().empty() || general_work_due()) return false;
  expire_timers();
  completions_.notify_due();
  return work_ == 0;
}

/// Of what poller 0 does for the whole device.
bool Poller::general_work_due() const {
  return (options_.links != nullptr && options_.links->deadline() <= turn_.now) ||
         (services_ != nullptr && services_->deadline() <= turn_.now);
}

void Poller::complete_burst() {
  qp::commit_placements(
      turn_);  // before the frames it reads from go, and before pump() reads what it writes to
  expire_timers();
  send();
  release();  // what has left is waited for, these buffers are not
}

/// What was received is acknowledged before anybody hears of it.
void Poller::send() {
  pump();
  transmit();
  publish();
  completions_.notify_due();
  raise_events();
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
    // Whoever waits sees the outcome complete, placed bytes and completions included.
    publish();
    raise_events();
    command->done.store(true,
                        std::memory_order_release);  // pairs with submit(); the command is gone after it
  }
}

void Poller::take_doorbells(size_t count_max) {
  QueuePairEntry* entry = nullptr;
  for (size_t i = 0; i < count_max && doorbells_.pop(entry); ++i) {
    // Before pump() looks at the queues: what is posted after this rings again. Pairs with ring().
    entry->rung.exchange(false, std::memory_order_acq_rel);
    activate(*entry);
  }
}

void Poller::expire_timers() {
  if (drained_ && !ahead_) {
    last_drained_ = turn_.now;
  } else if (turn_.now - last_drained_ < kUndrainedMax) {
    return;  // the answers that the timers wait for may be among the frames not seen yet
  }
  for (size_t i = 0; i < kExpiredMax; ++i) {
    TimerNode* node = timers_.pop_expired(turn_.now);
    if (node == nullptr) return;
    auto& entry = static_cast<QueuePairEntry&>(*node);
    // Timers are not moved on every packet: one that has nothing left to wait for, or waits longer by now,
    // lapses.
    if (entry.queue_pair.deadline() > turn_.now) {
      rearm(entry);
      continue;
    }
    flush_completions_if_full();
    entry.queue_pair.expire(turn_);
    activate(entry);
    ++work_;
  }
}

void Poller::pump() {
  if (options_.links != nullptr && options_.links->deadline() <= turn_.now) {
    options_.links->pump(turn_.now, tx_);
  }
  if (services_ != nullptr && services_->deadline() <= turn_.now) services_->pump(turn_.now, tx_);
  for (size_t left = active_.size(); left > 0 && !tx_.full(); --left) {
    QueuePairEntry& entry = active_.pop_front();
    flush_completions_if_full();
    note_error_state(entry);
    const size_t frames_before = tx_.frames().size();
    bool more = entry.queue_pair.pump(turn_, kPumpFrames);
    if (more && !tx_.full() && tx_.frames().size() - frames_before < kPumpFrames) count(Counter::kTxNoBuffer);
    more |= note_error_state(entry);
    rearm(entry);
    if (more) activate(entry);
    ++work_;
  }
}

void Poller::transmit() {
  std::span<port::TxFrame> frames = tx_.frames();
  size_t sent = 0;
  while (sent < frames.size()) {
    const size_t count = dispose(frames.subspan(sent));
    if (count == 0) break;
    sent += count;
  }
  if (sent < frames.size()) count(Counter::kTxPortFull);  // the rest goes first in the next turn
  uint64_t bytes = 0;
  for (const port::TxFrame& frame : frames.first(sent)) bytes += frame.length;
  counters_.add(Counter::kTxFrames, sent);
  counters_.add(Counter::kTxBytes, bytes);
  work_ += sent;
  if (sent > 0) tx_.consume(sent);
}

/// Sends the longest run of frames at the front that go the same way; how many were taken.
size_t Poller::dispose(std::span<port::TxFrame> frames) {
  if (frames.front().to_group) [[unlikely]] {
    frames.front().to_group = false;
    loop_copy(frames.front());
  }
  const auto is_other = [&](const port::TxFrame& frame) {
    return frame.to_self != frames.front().to_self || frame.to_group;
  };
  const auto run = static_cast<size_t>(std::ranges::find_if(frames, is_other) - frames.begin());
  if (!frames.front().to_self) return port_queue_.transmit(frames.first(run));
  const size_t count = std::min(run, kLoopFramesMax - looped_count_);
  for (const port::TxFrame& frame : frames.first(count)) {
    looped_[(looped_head_ + looped_count_++) % kLoopFramesMax] = port_queue_.loop(frame);
  }
  return count;
}

/// A frame to a group goes out, and to members of ours.
void Poller::loop_copy(const port::TxFrame& frame) {
  if (context_.groups.empty()) return;
  if (looped_count_ == kLoopFramesMax) return count(Counter::kRxHandOverFull);
  const port::RxFrame copy = copy_of(frame.data, frame.length);
  if (copy.data == nullptr) return;
  looped_[(looped_head_ + looped_count_++) % kLoopFramesMax] = copy;
}

void Poller::publish() {
  qp::commit_placements(turn_);
  completions_.publish_all();
}

void Poller::raise_events() {
  while (raised_ != nullptr) [[unlikely]]
    std::exchange(raised_, raised_->next_raised)->raise_events();
}

void QueuePairEntry::raised(qp::Event event) {
  if (listener == nullptr) return;
  if (events_ == 0) poller.note_events(*this);
  events_ |= 1u << static_cast<unsigned>(event);
}

bool Poller::note_error_state(QueuePairEntry& entry) {
  const bool error = entry.queue_pair.state() == qp::State::kErr;
  if (error == entry.in_error.load(std::memory_order_relaxed)) return false;  // only this thread writes it
  entry.in_error.store(error, std::memory_order_seq_cst);
  return error;
}

void Poller::rearm(QueuePairEntry& entry) {
  const Instant deadline = entry.queue_pair.deadline();
  if (deadline == kNever) return;
  if (!entry.armed() || deadline < entry.deadline()) timers_.arm(entry, deadline);
}

}  // namespace uroce::engine
