// Decision: our clock bounds a REP, not the peer's REQ. In Linux one spoofed REQ costs 16 REPs and a place
// for 77 s. Cost: a client without MRAs that needs more than 8 s for its RTU is refused.
//
// Decision: in a full table the oldest released connection in TIMEWAIT gives way. Otherwise fast clients fail
// with ENOMEM. Cost: less protection from late messages.
#include <algorithm>

#include "cm/agent.h"

namespace uroce::cm {
namespace {

// Link addresses are told within a round trip.
constexpr Duration kNextAttempt = milliseconds(1);

bool awaits_answer(State state) {
  return state == State::kReqSent || state == State::kRepSent || state == State::kDreqSent ||
         state == State::kSidrReqSent;
}

/// Whether our clock bounds the wait for the answer.
bool is_bounded(State state) { return state == State::kRepSent || state == State::kDreqSent; }

}  // namespace

void Agent::send(Connection& connection, wire::CmMessage message, uint32_t ece_options) {
  connection.last = {connection.transaction, ece_options, std::move(message)};
  connection.repeats_left =
      is_bounded(connection.state) ? std::min(connection.repeats, kRepeatsMax) : connection.repeats;
  connection.unsent = false;
  if (connection.state != State::kTimewait) wheel_.disarm(connection);
  mark_due(connection);
}

void Agent::mark_due(Connection& connection) {
  if (connection.due) return;
  connection.due = true;
  const uint32_t index = table_.index_of(connection);
  (last_due_ == 0 ? first_due_ : table_.at(last_due_).next_due) = index;
  last_due_ = index;
}

void Agent::pump(Instant now, MadSink& sink) {
  while (TimerNode* const node = wheel_.pop_expired(now)) on_timer(*static_cast<Connection*>(node), now);
  handle_early_requests(now, sink);
  while (first_due_ != 0) {
    Connection& connection = table_.at(first_due_);
    const Sent sent = sink.send(connection.address, connection.last);
    if (sent == Sent::kNoRoom) return;
    first_due_ = connection.next_due;
    if (first_due_ == 0) last_due_ = 0;
    connection.next_due = 0;
    connection.due = false;
    if (awaits_answer(connection.state)) {
      connection.unsent = sent == Sent::kLater;
      arm_for_answer(connection, now);
    }
    free_if_done(connection);
  }
}

void Agent::arm_for_answer(Connection& connection, Instant now) {
  Instant next = now + (connection.unsent ? kNextAttempt : connection.answer_within);
  if (is_bounded(connection.state) && !connection.unsent) {
    if (connection.ends == kNever) {
      connection.first_sent = now;
      connection.ends = now + std::min(connection.answer_within * (connection.repeats + 1), kPatienceMax);
    }
    next = connection.repeats_left == 0 ? connection.ends
                                        : std::min(now + connection.again_after, connection.ends);
  }
  wheel_.arm(connection, next);
}

Instant Agent::deadline() const {
  // What is due found no room: again at the next occasion.
  const bool due = first_due_ != 0 || (listened_ && !early_.empty());
  return due ? Instant{} : std::min(wheel_.next_deadline(), early_.deadline());
}

void Agent::on_timer(Connection& connection, Instant now) {
  if (connection.state == State::kTimewait) {
    close(connection);
    return tell(EventKind::kTimewaitEnded, connection);
  }
  const bool over = is_bounded(connection.state) && connection.ends <= now;
  if (connection.unsent && !over) {
    connection.unsent = false;
    return mark_due(connection);
  }
  if (connection.repeats_left == 0 || over) return give_up(connection, now);
  --connection.repeats_left;
  if (connection.state == State::kRepSent)
    connection.again_after = std::min(connection.again_after * 2, kAgainMax);
  // The peer may have another link address by now.
  if (connection.state == State::kDreqSent) connection.address.link = {};
  ++counters_.repeated;
  mark_due(connection);
}

void Agent::give_up(Connection& connection, Instant now) {
  switch (connection.state) {
    case State::kReqSent:
    case State::kRepSent:
      give_up_and_close(connection);
      return tell(EventKind::kUnanswered, connection);
    case State::kDreqSent:
      enter_timewait(connection, now);
      return tell(EventKind::kDisconnected, connection);
    default:
      close(connection);
      return tell(EventKind::kUnanswered, connection);
  }
}

void Agent::reject_and_close(Connection& connection, wire::CmRej rej) {
  rej.local = connection.local;
  rej.remote = connection.remote;
  rej.answered = connection.state == State::kReqReceived   ? wire::CmAnswered::kReq
                 : connection.state == State::kRepReceived ? wire::CmAnswered::kRep
                                                           : wire::CmAnswered::kOther;
  send(connection, rej);
  close(connection);
}

/// Rejects for the time-out (reason 4).
void Agent::give_up_and_close(Connection& connection) {
  wire::CmRej rej{.reason = wire::RejectReason::kTimeout};
  set_information(rej, information_of_timeout(options_.ca_guid));
  reject_and_close(connection, rej);
}

void Agent::hang_up(Connection& connection, const wire::CmDreq& dreq) {
  wire::CmDreq numbered = dreq;
  numbered.local = connection.local;
  numbered.remote = connection.remote;
  numbered.remote_qp = connection.remote_qp;
  connection.state = State::kDreqSent;
  ++hanging_up_;
  connection.transaction = new_transaction();
  connection.again_after = std::min(connection.answer_within, kAgainMax);
  connection.ends = kNever;
  send(connection, numbered);
}

/// Null: all that the table has room for are in use.
Connection* Agent::allocate() {
  Connection* allocated = table_.allocate();
  // One whose last message has yet to leave is free later.
  while (allocated == nullptr && released_timewait_.oldest() != nullptr) {
    ++counters_.timewait_cut_short;
    close(*released_timewait_.oldest());
    allocated = table_.allocate();
  }
  return allocated;
}

void Agent::enter_timewait(Connection& connection, Instant now) {
  // A peer that uses its queue pair's number anew has waited, and meets another one of ours: only what lives
  // is stale.
  table_.strike_qp(connection);
  half_open_.remove(connection);
  rows_.clear(table_.index_of(connection));
  if (connection.state == State::kDreqSent) --hanging_up_;
  connection.state = State::kTimewait;
  if (!connection.attended) released_timewait_.add(connection);
  wheel_.arm(connection, now + connection.timewait);
}

void Agent::close(Connection& connection) {
  no_longer_waiting(connection);
  half_open_.remove(connection);
  released_timewait_.remove(connection);
  table_.strike_comm(connection);
  table_.strike_qp(connection);
  wheel_.disarm(connection);
  rows_.clear(table_.index_of(connection));
  if (connection.state == State::kDreqSent) --hanging_up_;
  connection.state = State::kClosed;
  free_if_done(connection);
}

void Agent::end(Duration answer_within, uint8_t repeats, Instant now) {
  early_.clear();
  for (uint32_t i = 1; i <= table_.made(); ++i) {
    Connection& connection = table_.at(i);
    release(connection.local);
    if (connection.state != State::kDreqSent) continue;
    connection.answer_within = connection.again_after = answer_within;
    connection.repeats = connection.repeats_left = repeats;
    connection.ends = connection.ends == kNever ? kNever : now + answer_within * (repeats + 1);
    if (!connection.due && !connection.unsent) wheel_.arm(connection, now + answer_within);
  }
}

void Agent::free_if_done(Connection& connection) {
  if (connection.state == State::kClosed && !connection.attended && !connection.due) table_.free(connection);
}

void Agent::show(const Connection& connection) {
  const Address& address = connection.address;
  rows_.write(table_.index_of(connection), {.local = connection.local.value,
                                            .remote = connection.remote.value,
                                            .remote_qp = connection.remote_qp,
                                            .local_address = address.local,
                                            .remote_address = address.remote,
                                            .link = address.link,
                                            .traffic_class = address.traffic_class,
                                            .hop_limit = address.hop_limit,
                                            .service_level = address.service_level,
                                            .flow_label = address.flow_label});
}

void Agent::no_longer_waiting(Connection& connection) {
  if (connection.listener == 0) return;
  --listeners_[connection.listener].waiting;
  connection.listener = 0;
}

void Agent::tell(EventKind kind, const Connection& connection, const wire::CmMad* mad) {
  if (!connection.attended) return;
  consumer_.on_event({kind, connection.local, connection.consumer, connection.address, mad});
}

}  // namespace uroce::cm
