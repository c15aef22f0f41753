// The sending half of a turn: timers, the queue pairs' pumps, one burst out, completions and events. Which
// queue pair sends next, and how much, is SendScheduler's to say.
//
// Decision: a reply leaves first, and the ACK of what it replies to in a second burst of the same call
// (Turn::answers_follow). Neither end of a ping-pong has other work between two messages. Both are one burst
// where a burst is a system call (PortQueue::prefers_long_bursts()), or when the ACK carries the peer's only
// credit.
#include <algorithm>
#include <utility>

#include "base/values/contract.h"
#include "engine/poller/poller.h"
#include "qp/connection/placements.h"

namespace uroce::engine {

void Poller::expire_timers() {
  if (receive_.drained() && !ahead_) {
    last_drained_ = turn_.now;
  } else if (turn_.now - last_drained_ < kUndrainedMax) {
    return;  // the answers that the timers wait for may be among the frames not seen yet
  }
  for (size_t i = 0; i < kExpiredMax; ++i) {
    TimerNode* node = timers_.pop_expired(turn_.now);
    if (node == nullptr) return;
    auto& entry = static_cast<PollerQp&>(*node);
    // Timers are not moved on every packet: one that has nothing left to wait for, or waits longer by now,
    // lapses.
    qp::QueuePair& queue_pair = *entry.queue_pair.used();
    if (queue_pair.deadline() > turn_.now) {
      rearm(entry);
      continue;
    }
    flush_completions_if_full();
    queue_pair.expire(turn_);
    activate(entry);
    ++work_;
  }
}

void Poller::pump() {
  if (options_.links != nullptr && options_.links->deadline() <= turn_.now) {
    counters_.add(Counter::kGroupReports, options_.links->pump(turn_.now, tx_));
  }
  if (services_ != nullptr && services_->deadline() <= turn_.now) services_->pump(turn_.now, tx_);
  waiting_ = 0;
  if (turn_.shared) [[unlikely]]
    turn_.shared = senders_.still_mixed(turn_.now);
  SendScheduler::Round round = senders_.begin_round();
  while (round.left > 0 && !tx_.full()) {
    PollerQp* const next = senders_.next(round, turn_is_for_);
    if (next == nullptr) break;
    PollerQp& entry = *next;
    flush_completions_if_full();
    if (entry.queue_pair.used() == nullptr && !begin_use_by_post(entry)) [[unlikely]]
      continue;
    note_error_state(entry);
    const uint32_t taken = frames_taken(entry, round.frames);
    if (taken == 0) {
      activate(entry);
      ++waiting_;
      continue;
    }
    const size_t before = tx_.size();
    bool more = entry.queue_pair.used()->pump(turn_, taken);
    if (tx_.take_ran_dry()) [[unlikely]]
      count(Counter::kTxNoBuffer);
    more |= note_error_state(entry);
    rearm(entry);
    if (more) activate(entry);
    // An ACK that waits for a reply is none.
    if (!more || tx_.size() != before) ++work_;
    if (!senders_.is_lone(entry)) [[unlikely]]
      note_sent(entry, tx_.size() - before, more);
  }
}

/// Begins the first use of a queue pair that was posted to. False: nothing was posted that asks for it, or
/// there is no memory, for which what was posted waits as for a port that takes no more.
bool Poller::begin_use_by_post(PollerQp& entry) {
  if (!entry.queue_pair.wants_use()) return false;
  if (entry.queue_pair.use() != nullptr) return true;
  activate(entry);
  ++waiting_;
  return false;
}

/// Notes what a queue pair has sent, unless it is the only one that sends.
[[gnu::noinline]] void Poller::note_sent(PollerQp& entry, size_t frames, bool more) {
  senders_.sent(entry,
                {.now = turn_.now,
                 .frames = frames,
                 .bytes = tx_.bytes_behind(tx_.size() - frames),
                 .frame_bytes = frames > 0 ? tx_.last_length() : 0,
                 .more = more,
                 .awaits_responses = !more && frames > 0 && entry.queue_pair.used()->awaits_responses()});
  turn_.shared = senders_.mixed();
}

/// How many frames of `budget` the processes take just now that they go to: those before the first datagram
/// that is to wait. Other queue pairs do not wait for it.
uint32_t Poller::frames_taken(const PollerQp& entry, uint32_t budget) {
  if (!port_is_shared_) [[likely]]
    return budget;
  const qp::QueuePair& queue_pair = *entry.queue_pair.used();
  const qp::Attributes& attributes = queue_pair.attributes();
  if (attributes.state == qp::State::kErr || attributes.to_self) return budget;
  if (queue_pair.type() == qp::Type::kUd) {
    std::optional<QpNumber> last;  // that takes them
    return queue_pair.datagrams_until_refused(budget, [&](std::optional<QpNumber> to) {
      if (to && to == last) return true;
      last = to;
      return port_queue_.takes_datagrams(to, turn_.now);
    });
  }
  const bool has_room =
      port_queue_.has_room(attributes.on_host ? std::optional(attributes.destination) : std::nullopt);
  return has_room ? budget : 0;
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
  UROCE_ASSERT(!frames.empty() && frames.front().length > 0);
  if (frames.front().to_group) [[unlikely]] {
    frames.front().to_group = false;
    loop_copy(frames.front());
  }
  const auto is_other = [&](const port::TxFrame& frame) {
    return frame.to_self != frames.front().to_self || frame.to_group;
  };
  const auto run = static_cast<size_t>(std::ranges::find_if(frames, is_other) - frames.begin());
  if (!frames.front().to_self) return queue_->transmit(frames.first(run));
  const size_t count = std::min(run, looped_.room());
  for (const port::TxFrame& frame : frames.first(count)) {
    port::RxFrame looped = queue_->loop(frame);
    looped.has_icrc = frame.has_icrc;
    looped_.push(looped);
  }
  return count;
}

/// Loops a copy of a frame to a group, for members here, or in programs that share the device.
void Poller::loop_copy(const port::TxFrame& frame) {
  if (context_.groups.empty() && receive_.programs() == nullptr) return;
  if (looped_.room() == 0) return count(Counter::kRxHandOverFull);
  const port::RxFrame copy = receive_.copy_of(frame.data, frame.length);
  if (copy.data != nullptr) looped_.push(copy);
}

/// send(), which measures how long the turn took up to it. last_turn_ is when the turn began, by the system's
/// clock.
void Poller::send_measured() {
  until_measured_ = kSendsPerMeasured;
  Latencies* const latencies = options_.latencies;
  const bool sends = posted_turn_ == lock_.turn_number() && latencies != nullptr;
  const bool sent = send_frames();
  if (sends && sent) latencies->of(Latency::kPostToWire).record((options_.clock() - last_turn_).ns);
  qp::commit_placements(turn_);
  const bool received = receive_.burst() > 0 && receive_.last_received() == turn_.now;
  const bool completes = !completions_.empty();
  publish();
  if (completes && received && latencies != nullptr)
    latencies->of(Latency::kReceiveToCompletion).record((options_.clock() - last_turn_).ns);
  completions_.notify_due();
  if (raised_ != nullptr) raise_events();
}

void Poller::publish() {
  qp::commit_placements(turn_);
  if (!completions_.empty()) completions_.publish_all();
}

void Poller::raise_events() {
  while (raised_ != nullptr) [[unlikely]]
    std::exchange(raised_, raised_->next_raised)->raise_events();
}

void PollerQp::raised(qp::Event event) {
  if (listener == nullptr) return;
  if (events == 0) poller().note_events(*this);
  events = static_cast<uint8_t>(events | 1u << static_cast<unsigned>(event));
}

bool Poller::note_error_state(PollerQp& entry) {
  const bool error = entry.queue_pair.used()->state() == qp::State::kErr;
  if (error == entry.in_error.load(std::memory_order_relaxed)) return false;  // only this thread writes it
  entry.in_error.store(error, std::memory_order_seq_cst);
  if (error) forget_early(entry);
  return error;
}

void Poller::rearm(PollerQp& entry) {
  const Instant deadline = entry.queue_pair.used()->deadline();
  if (deadline == kNever) return;
  if (!entry.armed() || deadline < entry.deadline()) timers_.arm(entry, deadline);
}

}  // namespace uroce::engine
