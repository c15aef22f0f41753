#include "qp/queue_pair.h"

#include <smmintrin.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <utility>

#include "base/contract.h"
#include "qp/completion_report.h"
#include "qp/local_operation.h"
#include "qp/no_responder.h"
#include "qp/rc_responder.h"
#include "qp/uc_responder.h"
#include "qp/ud_responder.h"
#include "qp/xrc_target.h"

namespace uroce::qp {

namespace {

std::unique_ptr<Responder> make_responder(Connection& connection) {
  switch (connection.options.type) {
    case Type::kUc:
      return std::make_unique<UcResponder>(connection);
    case Type::kUd:
      return std::make_unique<UdResponder>(connection);
    case Type::kXrcSend:
      return std::make_unique<NoResponder>();
    case Type::kRc:
    case Type::kXrcReceive:
      break;
  }
  return std::make_unique<RcResponder>(connection);
}

/// There are requesters, Linux's for one, that round what they were told up to a power of two.
uint32_t resources_for(uint32_t responses_max, ReadLimits limits) {
  return responses_max == 0 ? 0 : std::min<uint32_t>(std::bit_ceil(responses_max), limits.answered);
}

}  // namespace

QueuePair::QueuePair(const Options& options)
    : connection_{.options = options,
                  .receives = ReceiveRequests(*options.receive_queue, options.shared_receives),
                  .attributes = {},
                  .frame = {},
                  .mtu = options.datagram_mtu},
      window_(*options.send_queue, options.reads.sent),
      retransmission_(connection_, window_),
      requester_(connection_, window_, retransmission_),
      completer_(connection_, window_, retransmission_),
      responder_(make_responder(connection_)) {
  connection_.placement_owner = this;
  connection_.invalidation = &invalidation_;
  if (connection_.is_xrc_target()) connection_.receives.share(nullptr);
  UROCE_ASSERT(options.reads.answered > 0 || !is_reliable(options.type));
  UROCE_ASSERT(options.send_queue->options().segments_max <= kSegmentsMax);
  UROCE_ASSERT(options.receive_queue->options().segments_max <= kSegmentsMax);
}

int QueuePair::modify(const Attributes& attributes, AttributeMask mask, Turn& turn) {
  const State from = state();
  const State to = mask.any(kMaskState) ? attributes.state : from;
  if (mask.any(kMaskCurrentState) && attributes.current_state != from) return EINVAL;
  if (const int error = check_transition(connection_.options.type, from, to, mask); error != 0) return error;
  if (const int error = check_values(attributes, mask, connection_.options.reads,
                                     connection_.options.partition_keys.size());
      error != 0)
    return error;

  apply(attributes, mask, connection_.attributes);
  Attributes& current = connection_.attributes;
  if (mask.any(kMaskPkeyIndex))
    connection_.partition_key = connection_.options.partition_keys[current.pkey_index];
  if (mask.any(kMaskAv | kMaskDestQpn | kMaskPkeyIndex)) make_frame();
  if (to == State::kSqd && from != State::kSqd)
    current.notify_drained = mask.any(kMaskEnSqdAsyncNotify) && attributes.notify_drained;
  if (mask.any(kMaskMaxDestRdAtomic))
    connection_.resources = resources_for(current.max_dest_rd_atomic, connection_.options.reads);
  if (mask.any(kMaskPathMtu)) connection_.mtu = path_mtu_bytes(current.path_mtu);
  if (to != from || to == State::kReset) enter(to, turn);
  UROCE_ASSERT(state() == to);
  note_admission();
  return 0;
}

/// What all frames to the peer begin with.
void QueuePair::make_frame() {
  const Attributes& current = connection_.attributes;
  wire::Path path = current.path;
  path.udp_source_port =
      wire::udp_source_port(connection_.options.source_ports, path.flow_label, number(), current.destination);
  connection_.frame = wire::FrameTemplate(path);
  connection_.frame.set_peer(connection_.partition_key, current.destination);
}

void QueuePair::enter(State to, Turn& turn) {
  const State from = state();
  connection_.attributes.state = to;
  connection_.attributes.draining = to == State::kSqd;
  switch (to) {
    case State::kReset:
      return reset();
    case State::kRtr:
      established_ = false;
      return responder_->reset(connection_.attributes.rq_psn);
    case State::kRts:
      connection_.sends_broken = false;
      if (from == State::kRtr) reset_sends(connection_.attributes.sq_psn);
      return;  // from SQD the send side goes on where it was; in SQE all of it was flushed
    case State::kErr:
      responder_->drop_answers();
      return end(turn);
    case State::kSqd:
      return note_drained();
    case State::kInit:
    case State::kSqe:
      return;
  }
}

void QueuePair::reset_sends(Psn first) {
  window_.reset(first);
  requester_.reset();
  completer_.reset();
  retransmission_.reset();
}

/// Everything is forgotten, without completions.
void QueuePair::reset() {
  drop_sends();
  connection_.waiter = Waiter::kNone;
  drop_receives();
  connection_.attributes = {};
  connection_.broken = connection_.sends_broken = false;
  reset_sends(Psn());
  responder_->reset(Psn());
}

void QueuePair::drop_receives() {
  for (uint32_t left = connection_.receives.waiting(); left > 0; --left) connection_.receives.retire();
}

void QueuePair::drop_sends() {
  queue::SendQueue& sends = *connection_.options.send_queue;
  for (const uint32_t end = sends.published(); sends.retired() != end; sends.retire()) {
    if (!window_.has_started(sends.retired())) drop_operation(sends, sends.at(sends.retired()));
  }
}

void QueuePair::flush_sends(Turn& turn) {
  queue::SendQueue& sends = *connection_.options.send_queue;
  for (const uint32_t end = sends.published(); sends.retired() != end; sends.retire()) {
    queue::SendRequest& request = sends.at(sends.retired());
    report_send(connection_, turn, request, queue::CompletionStatus::kFlushed);
    if (!window_.has_started(sends.retired())) drop_operation(sends, request);
  }
}

/// Everything outstanding completes as flushed.
void QueuePair::flush(Turn& turn) {
  connection_.waiter = Waiter::kNone;
  flush_sends(turn);
  for (uint32_t left = connection_.receives.waiting(); left > 0; --left) {
    report_receive(
        connection_, turn,
        {.opcode = queue::CompletionOpcode::kReceive, .status = queue::CompletionStatus::kFlushed});
  }
}

/// In SQD: whether nothing is under way any more.
void QueuePair::note_drained() {
  Attributes& current = connection_.attributes;
  if (!current.draining || !window_.idle() || connection_.stalled) return;
  current.draining = false;
  if (current.notify_drained) connection_.raise(Event::kSendQueueDrained);
}

/// After an error that one of the parts has reported: the error state. A NAK that is due, and the READ
/// responses before it, still go out.
inline void QueuePair::settle(Turn& turn) {
  if (connection_.broken || connection_.sends_broken || connection_.attributes.draining) [[unlikely]]
    change_state(turn);
}

void QueuePair::change_state(Turn& turn) {
  UROCE_ASSERT(!connection_.sends_broken || !connection_.reliable);
  if (connection_.sends_broken && state() == State::kRts) {
    connection_.attributes.state = State::kSqe;
    flush_sends(turn);
    reset_sends(window_.sent_end());
  }
  if (!connection_.broken) {
    note_drained();
  } else if (state() != State::kErr) {
    connection_.attributes.state = State::kErr;
    end(turn);
  }
  note_admission();
}

/// The error state was entered.
void QueuePair::end(Turn& turn) {
  UROCE_ASSERT(state() == State::kErr);
  connection_.attributes.draining = false;
  retransmission_.reset();
  flush(turn);
  if (connection_.receives.are_shared()) connection_.raise(Event::kLastReceive);
  // The queue pair's own queue may have been posted to meanwhile: the next pump flushes that.
  UROCE_ASSERT(!connection_.receives.are_shared() || connection_.receives.waiting() == 0);
}

/// Why the packet is none for the queue pair; kCount: it is one.
Counter QueuePair::reason_to_drop(const wire::Packet& packet) const {
  const Attributes& attributes = connection_.attributes;
  if (packet.row->opcode.service() != connection_.service) return Counter::kDropService;
  if (state() < State::kRtr || state() > State::kSqe || (packet.row->response && state() == State::kRtr))
    return Counter::kDropQpState;
  if (connection_.connected &&
      (packet.source != attributes.path.destination || packet.destination != attributes.path.source))
    return Counter::kDropWrongPeer;
  if (!may_talk(connection_.partition_key, packet.headers.bth.partition_key))
    return Counter::kDropPartitionKey;
  return Counter::kCount;
}

/// After whatever decides about it: what receive_slow_path() would find out for each packet.
void QueuePair::note_admission() {
  admitted_ = 0;
  const bool may_receive = state() >= State::kRtr && state() <= State::kSqe;
  const bool waits = state() == State::kRtr && !established_;
  if (!may_receive || waits || !connection_.connected || connection_.attributes.draining) return;
  admitted_ = 1u << wire::traffic_of(connection_.service, false);
  if (state() != State::kRtr) admitted_ |= 1u << wire::traffic_of(connection_.service, true);
}

namespace {

/// The packet of a connection came between the ends of the path, whose addresses lie in the same order.
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

/// True of nearly all: then there is neither a reason to drop it nor anything else to be seen to before.
inline bool QueuePair::is_predicted(const wire::Packet& packet) const {
  // A full member of our partition, whatever we are.
  const uint32_t partition_key = uint32_t{connection_.partition_key} | kFullMember;
  return (admitted_ >> packet.row->traffic & 1) != 0 && !connection_.has_errors() &&
         packet.headers.bth.partition_key == partition_key && is_between(packet, connection_.attributes.path);
}

Receipt QueuePair::receive(const wire::Packet& packet, Turn& turn) {
  if (!is_predicted(packet)) [[unlikely]]
    return receive_slow_path(packet, turn);
  show(packet, turn);
  if (!connection_.has_errors()) [[likely]]
    return Receipt::kTaken;
  settle(turn);
  return take_receipt();
}

/// What became of the packet that was shown last.
Receipt QueuePair::take_receipt() {
  if (!std::exchange(connection_.again, false)) return Receipt::kTaken;
  return connection_.stalled ? Receipt::kStalled : Receipt::kEarly;
}

inline void QueuePair::show(const wire::Packet& packet, Turn& turn) {
  if (packet.row->response) {
    completer_.receive(packet, turn);
  } else {
    responder_->receive(packet, turn);
  }
}

Receipt QueuePair::receive_slow_path(const wire::Packet& packet, Turn& turn) {
  if (connection_.stalled) return Receipt::kStalled;
  if (const Counter reason = reason_to_drop(packet); reason != Counter::kCount) {
    turn.counters.add(reason);
    return Receipt::kTaken;
  }
  if (state() == State::kRtr && connection_.connected && !std::exchange(established_, true)) {
    connection_.raise(Event::kEstablished);
    note_admission();
  }
  show(packet, turn);
  settle(turn);
  return take_receipt();
}

/// True when what the queue pair waited for is over, and what waited for that is complete.
bool QueuePair::resume(Turn& turn) {
  if (!invalidation_.over(turn.regions)) return false;
  connection_.stalled = false;
  switch (std::exchange(connection_.waiter, Waiter::kNone)) {
    case Waiter::kNone:
      break;
    case Waiter::kSend:
      completer_.invalidated(turn);
      break;
    case Waiter::kReceive:
      responder_->invalidated(turn);
      break;
  }
  settle(turn);
  return true;
}

bool QueuePair::abandon(Turn& turn) {
  drop_sends();
  drop_receives();
  connection_.waiter = Waiter::kNone;
  return invalidation_.over(turn.regions);
}

void QueuePair::forget_receives(const queue::SharedReceiveQueue& receives) {
  qp::forget_receives(connection_, receives);
}

void QueuePair::lost(const copy::MessageMark& mark, Turn& turn) {
  UROCE_ASSERT(mark.owner == connection_.placement_owner);
  if (mark.kind == copy::MessageMark::Kind::kRead) {
    completer_.lost(mark, turn);
  } else {
    responder_->lost(mark, turn);
  }
  settle(turn);
}

bool QueuePair::pump(Turn& turn, uint32_t budget) {
  UROCE_ASSERT(budget >= 2);
  if (connection_.stalled && !resume(turn)) [[unlikely]]
    return true;
  switch (state()) {
    case State::kReset:
    case State::kInit:
      return false;
    case State::kSqe:
      flush_sends(turn);
      window_.reset(window_.sent_end());
      return false;
    case State::kErr:
      flush(turn);
      return responder_->pump(turn, budget).more;
    case State::kRtr:
    case State::kRts:
    case State::kSqd:
      break;
  }
  // A long READ response must not keep our own requests waiting: it gets half of the budget, and what they
  // leave.
  const uint32_t half = (budget + 1) / 2;
  Pumped responses;
  if (responder_->owes()) responses = responder_->pump(turn, half);
  Pumped requests;
  if (state() != State::kRtr && !connection_.broken && requester_.has_work())
    requests = pump_requests(turn, budget - responses.frames);
  const uint32_t used = responses.frames + requests.frames;
  UROCE_ASSERT(responses.frames <= half && used <= budget);
  const bool replied = responses.waits && requests.frames > 0;
  if (replied) responder_->note_request();
  if (replied || responses.behind || (responses.more && responses.frames == half && used < budget))
    responses = responder_->pump(turn, budget - used);
  settle(turn);
  return responses.more || requests.more || connection_.stalled;
}

Pumped QueuePair::pump_requests(Turn& turn, uint32_t budget) {
  Pumped pumped = requester_.pump(turn, budget);
  if (connection_.reliable) return pumped;
  // What has gone is complete, and what waited for that may go.
  for (uint32_t newly = pumped.frames; newly > 0 && !connection_.broken;) {
    completer_.sent(turn);
    const Pumped again = requester_.pump(turn, budget - pumped.frames);
    newly = again.frames;
    pumped.frames += newly;
    pumped.more = again.more;
  }
  return pumped;
}

bool QueuePair::answer(Turn& turn, uint32_t budget) {
  if (connection_.stalled && !resume(turn)) [[unlikely]]
    return true;
  Pumped responses = responder_->pump(turn, budget);
  if (responses.waits) responder_->note_request();
  if (responses.behind || responses.waits) responses = responder_->pump(turn, budget);
  return responses.more;
}

void QueuePair::expire(Turn& turn) {
  // The answer may be among the packets that are not received yet.
  if (connection_.stalled) [[unlikely]]
    return retransmission_.heard(turn.now);
  retransmission_.expire(turn);
  settle(turn);
}

}  // namespace uroce::qp
