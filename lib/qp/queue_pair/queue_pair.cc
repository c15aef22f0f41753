// Decision (`psn-followed`): an out-of-order request without MigReq is executed only when it, or a request
// behind it, comes again. rxe sends without MigReq, goes back whatever is acknowledged, and fails on an ACK
// of a message that it has begun to repeat. Cost: the tail of a buffered burst is acknowledged only after its
// repetition.
//
// Decision: marked data (CE) is answered by CNPs, whatever limits our own rate. A peer that sends ECT asks
// for that. Not covered: UD, whose packets do not name a flow.
#include "qp/queue_pair/queue_pair.h"

#include <smmintrin.h>

#include <algorithm>
#include <utility>

#include "base/values/contract.h"
#include "qp/connection/frame_writer.h"
#include "qp/connection/packet_checks.h"
#include "qp/responder/no_responder.h"
#include "qp/responder/rc_responder.h"
#include "qp/responder/uc_responder.h"
#include "qp/responder/ud_responder.h"
#include "qp/responder/xrc_target.h"

namespace uroce::qp {

namespace {

/// At `place`, which has room for `kBytes`.
template <typename Kind, size_t kBytes, typename... Arguments>
void make_responder(void* place, Arguments&... arguments) {
  static_assert(sizeof(Kind) <= kBytes && alignof(Kind) <= alignof(Responder));
  Responder* const made = ::new (place) Kind(arguments...);
  UROCE_ASSERT(made == place);
}

}  // namespace

QueuePair::QueuePair(const Options& options) : send_(options), requester_(send_), completer_(send_) {
  Connection& connection = send_.connection;
  switch (options.type) {
    case Type::kUc:
      make_responder<UcResponder, kResponderBytes>(&responder_, connection);
      break;
    case Type::kUd:
      make_responder<UdResponder, kResponderBytes>(&responder_, connection);
      break;
    case Type::kXrcSend:
      make_responder<NoResponder, kResponderBytes>(&responder_);
      break;
    case Type::kRc:
    case Type::kXrcReceive:
      make_responder<RcResponder, kResponderBytes>(&responder_, static_cast<Sending&>(send_));
      break;
  }
  connection.placement_owner = this;
  if (connection.is_xrc_target()) connection.receives.share(nullptr);
  UROCE_ASSERT(options.transport->reads.answered > 0 || !is_reliable(options.type));
  UROCE_ASSERT(options.send_queue->segments_max() <= kSegmentsMax);
  UROCE_ASSERT(options.receive_queue->segments_max() <= kSegmentsMax);
}

QueuePair::~QueuePair() { responder().~Responder(); }

/// After an error that one of the parts has reported: the error state. A NAK that is due, and the READ
/// responses before it, still go out.
inline void QueuePair::settle(Turn& turn) {
  if (send_.connection.broken || send_.connection.sends_broken || send_.connection.attributes.draining)
      [[unlikely]]
    change_state(turn);
}

inline Counter QueuePair::reason_to_drop(const wire::Packet& packet) const {
  const Connection& connection = send_.connection;
  return qp::reason_to_drop(packet, connection.service, connection.partition_key, connection.attributes);
}

bool QueuePair::awaits_request(const wire::Packet& packet) const {
  return packet.row->traffic == wire::traffic_of(send_.connection.service, false) &&
         !send_.connection.stalled && reason_to_drop(packet) == Counter::kCount;
}

namespace {

/// Whether the packet came from the far end of the path to our end.
inline bool is_between(const wire::Packet& packet, const wire::Path& path) {
  const auto differences = [](const Gid& a, const Gid& b) {
    return _mm_xor_si128(_mm_loadu_si128(reinterpret_cast<const __m128i*>(a.bytes.data())),
                         _mm_loadu_si128(reinterpret_cast<const __m128i*>(b.bytes.data())));
  };
  const __m128i all = _mm_or_si128(differences(packet.source, path.destination),
                                   differences(packet.destination, path.source));
  return _mm_testz_si128(all, all) != 0;
}

}  // namespace

bool QueuePair::is_prediction_eligible(const wire::Packet& packet) const {
  // A full member of our partition, whatever we are.
  const uint32_t partition_key = uint32_t{send_.connection.partition_key} | kFullMember;
  return admits(packet) && !is_marked(packet) && packet.headers.bth.partition_key == partition_key &&
         is_between(packet, send_.connection.attributes.path);
}

Receipt QueuePair::receive(const wire::Packet& packet, Turn& turn) {
  return is_prediction_eligible(packet) ? receive_predicted(packet, turn) : receive_slow_path(packet, turn);
}

Receipt QueuePair::receive_predicted(const wire::Packet& packet, Turn& turn) {
  // A packet that was like it may have led to another state.
  if (!admits(packet)) [[unlikely]]
    return receive_slow_path(packet, turn);
  show(packet, turn);
  if (!send_.connection.has_errors()) [[likely]]
    return Receipt::kTaken;
  settle(turn);
  return take_receipt();
}

/// Refuses only what receive() would give to the responder without any other check; the first packet of a
/// connection is performed.
bool QueuePair::refuse(const wire::Packet& packet, RequestStatus status, Turn& turn) {
  if (packet.row->response || !is_prediction_eligible(packet)) return false;
  if (!responder().refuse_due(packet, status, turn)) return false;
  settle(turn);
  return true;
}

/// What became of the packet that was given to completer or responder last.
Receipt QueuePair::take_receipt() {
  if (!std::exchange(send_.connection.again, false)) return Receipt::kTaken;
  return send_.connection.stalled ? Receipt::kStalled : Receipt::kEarly;
}

inline void QueuePair::show(const wire::Packet& packet, Turn& turn) {
  if (packet.row->response) {
    completer_.receive(packet, turn);
  } else {
    responder().receive(packet, turn);
  }
}

/// Receives a CNP, which is not answered: what this queue pair sends meets congestion.
void QueuePair::receive_cnp(const wire::Packet& packet, Turn& turn) {
  const Counter reason = reason_to_drop(packet);
  turn.counters.add(reason == Counter::kCount ? Counter::kRxCnp : reason);
  if (reason != Counter::kCount) return;
  send_.connection.congestion.cnp(turn.line_mbps, turn.now);
}

/// Data came that the network has marked. A packet that is shown once more counts only then.
void QueuePair::note_marked(Receipt receipt, Turn& turn) {
  if (receipt == Receipt::kTaken) turn.counters.add(Counter::kRxCe);
  if (send_.connection.connected) notification_.marked(cnp_interval(), turn.now);
}

/// Sends the CNP that is owed; false: it could not.
bool QueuePair::notify(Turn& turn) {
  port::TxFrame* const frame = turn.tx.next();
  if (frame == nullptr) return false;
  write_cnp(*frame, send_.connection, turn.tx);
  turn.tx.commit();
  notification_.cnp_sent(cnp_interval(), turn.now);
  turn.counters.add(Counter::kTxCnp);
  return true;
}

namespace {

/// Whether the packet has data, which the peer can send more slowly.
bool is_data(const wire::OpcodeRow& row) {
  return row.family == wire::Family::kSend || row.family == wire::Family::kWrite ||
         row.family == wire::Family::kReadResponse;
}

}  // namespace

Receipt QueuePair::receive_slow_path(const wire::Packet& packet, Turn& turn) {
  if (packet.row->family == wire::Family::kCnp) {
    receive_cnp(packet, turn);
    return Receipt::kTaken;
  }
  if (send_.connection.stalled) return Receipt::kStalled;
  if (const Counter reason = reason_to_drop(packet); reason != Counter::kCount) {
    turn.counters.add(reason);
    return Receipt::kTaken;
  }
  if (state() == State::kRtr && send_.connection.connected && !std::exchange(established_, true)) {
    send_.connection.raise(Event::kEstablished);
    note_admission();
  }
  show(packet, turn);
  settle(turn);
  const Receipt receipt = take_receipt();
  if (is_marked(packet) && is_data(*packet.row)) note_marked(receipt, turn);
  return receipt;
}

void QueuePair::drop_out_of_order(const wire::Packet& packet, Turn& turn) {
  if (!packet.row->response) return responder().drop_out_of_order(packet.headers.bth.psn, turn);
  completer_.drop_out_of_order(turn);
  settle(turn);
}

bool QueuePair::reach_response(Psn psn, Turn& turn) {
  UROCE_ASSERT(psn.after(send_.window.oldest()));
  if (send_.connection.stalled || send_.connection.broken || psn.after(send_.window.sent_end())) return false;
  const bool due = completer_.reach_kept(psn, turn);
  settle(turn);
  return due;
}

/// True when what the queue pair waited for is over, and what waited for that is complete.
bool QueuePair::resume(Turn& turn) {
  if (!send_.connection.invalidation.over(turn.regions)) return false;
  send_.connection.stalled = false;
  switch (std::exchange(send_.connection.waiter, Waiter::kNone)) {
    case Waiter::kNone:
      break;
    case Waiter::kSend:
      completer_.invalidated(turn);
      break;
    case Waiter::kReceive:
      responder().invalidated(turn);
      break;
  }
  settle(turn);
  return true;
}

bool QueuePair::may_move() const {
  const bool connected = state() == State::kRtr || state() == State::kRts;
  return connected && !send_.connection.has_errors() && !send_.connection.stalled &&
         send_.connection.waiter == Waiter::kNone;
}

void QueuePair::moved(Duration by) {
  send_.connection.acks.moved(by);
  send_.connection.congestion.shift(by);
  send_.recovery.shift(by);
  responder().shift(by);
  notification_.shift(by);
}

bool QueuePair::abandon(Turn& turn) {
  drop_sends();
  drop_receives();
  send_.connection.waiter = Waiter::kNone;
  return send_.connection.invalidation.over(turn.regions);
}

void QueuePair::forget_receives(const queue::SharedReceiveQueue& receives) {
  qp::forget_receives(send_.connection, receives);
}

void QueuePair::lost(const copy::MessageMark& mark, Turn& turn) {
  UROCE_ASSERT(mark.owner == send_.connection.placement_owner);
  if (mark.kind == copy::MessageMark::Kind::kRead) {
    completer_.lost(mark, turn);
  } else {
    responder().lost(mark, turn);
  }
  settle(turn);
}

bool QueuePair::pump(Turn& turn, uint32_t budget) {
  UROCE_ASSERT(budget >= (send_.connection.connected ? 2u : 1u));
  if (send_.connection.stalled && !resume(turn)) [[unlikely]]
    return true;
  switch (state()) {
    case State::kReset:
    case State::kInit:
      return false;
    case State::kSqe:
      flush_sends(turn);
      send_.window.reset(send_.window.sent_end());
      return false;
    case State::kErr:
      flush(turn);
      return responder().pump(turn, budget).more;
    case State::kRtr:
    case State::kRts:
    case State::kSqd:
      break;
  }
  if (notification_.owes_cnp()) [[unlikely]] {
    if (!notify(turn)) return true;
    --budget;
  }
  // A long READ response must not keep our own requests waiting: it gets half of the budget, and what they
  // leave.
  const uint32_t half = (budget + 1) / 2;
  Pumped responses;
  if (responder().owes()) responses = responder().pump(turn, half);
  Pumped requests;
  if (state() != State::kRtr && !send_.connection.broken && requester_.has_work())
    requests = pump_requests(turn, budget - responses.frames);
  const uint32_t used = responses.frames + requests.frames;
  UROCE_ASSERT(responses.frames <= half && used <= budget);
  AckTime ack = responses.ack;
  if (ack != AckTime::kNotAtAll) [[unlikely]]
    ack = send_.connection.acks.data_built(requests.frames > 0);
  if (ack == AckTime::kAfterData) [[unlikely]] {
    turn.answers_follow = true;
  } else if (ack == AckTime::kNow || (responses.more && responses.frames == half && used < budget)) {
    responses = responder().pump(turn, budget - used);
  }
  settle(turn);
  return responses.more || requests.more || send_.connection.stalled;
}

Pumped QueuePair::pump_requests(Turn& turn, uint32_t budget) {
  Pumped pumped = requester_.pump(turn, budget);
  if (send_.connection.reliable) return pumped;
  // What has gone is complete, and what waited for that may go.
  for (uint32_t newly = pumped.frames; newly > 0 && !send_.connection.broken;) {
    completer_.sent(turn);
    const Pumped again = requester_.pump(turn, budget - pumped.frames);
    newly = again.frames;
    pumped.frames += newly;
    pumped.more = again.more;
  }
  return pumped;
}

bool QueuePair::answer(Turn& turn, uint32_t budget) {
  if (send_.connection.stalled && !resume(turn)) [[unlikely]]
    return true;
  // What is owed before the end does not wait for its time. The algorithm stays, for the end may be refused.
  begin_congestion();
  send_.connection.acks.ends();
  return responder().pump(turn, budget).more;
}

void QueuePair::expire(Turn& turn) {
  send_.connection.congestion.expire(turn.now);
  if (turn.now < send_.recovery.deadline()) return;
  // The answer may be among the packets that are not received yet.
  if (send_.connection.stalled) [[unlikely]]
    return send_.recovery.peer_alive(turn.now);
  send_.recovery.expire(turn);
  settle(turn);
}

}  // namespace uroce::qp
