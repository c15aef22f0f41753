// Decision: a WRITE with immediate to memory that it may not write completes its receive with
// IBV_WC_LOC_ACCESS_ERR; the NAK is 0x62. IBTA has that status for this case alone.
//
// Decision: receive L_Keys are checked in the domain of the queue that they were posted to, because the
// buffers belong to that queue's user. Cost: four bytes for each queue pair.
#include "qp/responder/rc_responder.h"

#include "base/values/contract.h"
#include "qp/connection/completion_report.h"
#include "qp/connection/packet_checks.h"
#include "qp/connection/placements.h"
#include "qp/recovery/transport_timers.h"
#include "qp/requester/local_operation.h"
#include "qp/responder/message_checks.h"
#include "qp/responder/xrc_target.h"

namespace uroce::qp {

using queue::CompletionOpcode;
using queue::CompletionStatus;
using Kind = InboundMessage::Kind;

void RcResponder::reset(Psn expected) {
  expected_ = expected;
  ack_psn_ = expected - 1u;
  msn_ = last_msn_sent_ = Msn();
  message_ = {};
  undisturbed_ = true;
  nak_given_ = ahead_dropped_ = false;
  reordering_.reset();
  rnr_quiet_until_ = {};
  drop_answers();
}

void RcResponder::drop_answers() {
  responses_.clear();
  nak_ = Nak::kNone;
  send_.connection.acks.settled();
}

/// Performs a packet of a SEND or WRITE. Its kind and whether it is whole are constants: most are, and then
/// nearly all else is one.
[[gnu::always_inline]] inline void RcResponder::receive_part(const MessagePart& part, bool whole,
                                                             const wire::Packet& packet, Turn& turn) {
  const Kind kind = part.kind;
  const RequestContext context{send_.connection, packet, turn, cursor_};
  const CheckResult check = check_message(context, part, message_.kind);
  if (check.status != RequestStatus::kAccept) [[unlikely]]
    return refuse_packet(check.status, packet, turn);
  const bool invalidates =
      !whole && kind == Kind::kSend && packet.row->headers.has(wire::Header::kInvalidate);
  if (invalidates && !invalidate(packet, turn)) [[unlikely]]
    return;
  if (part.ends || turn.placer.marks_bodies())
    turn.placer.next_mark() = mark_of(send_.connection, kind, part.completes, packet, msn_.value(), turn);
  if (!place_payload(context, part, check)) [[unlikely]] {
    turn.counters.add(Counter::kMemoryGone);
    return refuse(kind == Kind::kSend ? RequestStatus::kRemoteOperational : RequestStatus::kRemoteAccess,
                  turn);
  }
  turn.counters.add(Counter::kRequestsExecuted);
  if (invalidates && send_.connection.stalled) [[unlikely]]
    return wait_for_invalidation(packet, static_cast<uint32_t>(part.end()));
  if (part.ends) {
    complete_message(packet, part, check, whole, turn);
  } else {
    if (kind == Kind::kSend) send_.connection.receives.take();
    message_.go_on(kind, packet);
  }
  note_delivery(packet, part, turn);
  arrived();
}

/// Completes a message, all of which is placed.
[[gnu::always_inline]] inline void RcResponder::complete_message(const wire::Packet& packet,
                                                                 const MessagePart& part,
                                                                 const CheckResult& check, bool whole,
                                                                 Turn& turn) {
  UROCE_ASSERT(part.ends && !send_.connection.stalled);
  ++msn_;
  received_.add(part.end());
  message_.kind = Kind::kNone;
  if (whole && part.kind == Kind::kSend && check.receive != nullptr) [[likely]] {
    report_receive(send_.connection, turn, completion_of(Kind::kSend, packet, part.bytes), *check.receive);
    return;
  }
  if (part.kind == Kind::kSend)
    return report_message(Kind::kSend, packet, static_cast<uint32_t>(part.end()), turn);
  if (part.completes) [[unlikely]]
    report_write(packet, turn);
}

[[gnu::always_inline]] inline void RcResponder::report_message(Kind kind, const wire::Packet& packet,
                                                               uint32_t bytes, Turn& turn) {
  queue::Completion* const said = report_receive(send_.connection, turn, completion_of(kind, packet, bytes));
  if (packet.row->headers.has_any(kImmediateHeaders) && said != nullptr) [[unlikely]]
    add_immediate(packet, *said);
}

/// Reports a WRITE with immediate.
void RcResponder::report_write(const wire::Packet& packet, Turn& turn) {
  const MessagePart part = part_of(message_, Kind::kWrite, packet);
  report_message(Kind::kWrite, packet, static_cast<uint32_t>(part.end()), turn);
}

/// Keeps what is needed to complete a SEND with invalidate, all of which is placed, in invalidated().
void RcResponder::wait_for_invalidation(const wire::Packet& packet, uint32_t bytes) {
  UROCE_ASSERT(send_.connection.waiter == Waiter::kReceive && ends_message(*packet.row));
  send_.connection.receives.take();
  message_.received = bytes;
  message_.target.rkey = packet.headers.invalidate;
  waiting_solicited_ = packet.headers.bth.solicited;
  waiting_ack_ = packet.headers.bth.ack_request;
}

void RcResponder::receive(const wire::Packet& packet, Turn& turn) {
  UROCE_ASSERT(!packet.row->response && !send_.connection.stalled);
  if (packet.headers.bth.psn != expected_) [[unlikely]]
    return receive_out_of_order(packet, turn);
  if (send_.connection.is_xrc_target()) [[unlikely]]
    return receive_for_named(packet, turn);
  perform(packet, turn);
}

/// XRC: performs the expected packet with the shared receive queue that it names.
void RcResponder::receive_for_named(const wire::Packet& packet, Turn& turn) {
  if (turn_to_receives(receives_named_by(packet), turn)) perform(packet, turn);
}

/// Performs the expected packet.
void RcResponder::perform(const wire::Packet& packet, Turn& turn) {
  UROCE_ASSERT(packet.headers.bth.psn == expected_);
  switch (packet.row->family) {
    case wire::Family::kSend:
      return packet.row->whole ? receive_whole_send(packet, turn) : receive_send(packet, turn);
    case wire::Family::kWrite:
      return packet.row->whole ? receive_whole_write(packet, turn) : receive_write(packet, turn);
    default:
      return receive_operation(packet, turn);
  }
}

void RcResponder::receive_whole_send(const wire::Packet& packet, Turn& turn) {
  receive_part(whole_of(Kind::kSend, packet), true, packet, turn);
}

void RcResponder::receive_whole_write(const wire::Packet& packet, Turn& turn) {
  receive_part(whole_of(Kind::kWrite, packet), true, packet, turn);
}

void RcResponder::receive_send(const wire::Packet& packet, Turn& turn) {
  receive_part(part_of(message_, Kind::kSend, packet), false, packet, turn);
}

void RcResponder::receive_write(const wire::Packet& packet, Turn& turn) {
  receive_part(part_of(message_, Kind::kWrite, packet), false, packet, turn);
}

void RcResponder::receive_out_of_order(const wire::Packet& packet, Turn& turn) {
  const Psn psn = packet.headers.bth.psn;
  if (psn.after(expected_)) return receive_ahead(packet, turn);
  receive_again(packet, turn);
}

/// XRC: makes the shared receive queue that the expected packet names the current one; all packets of a
/// message name the same. False: the packet was refused, or the connection is broken.
bool RcResponder::turn_to_receives(queue::SrqNumber number, Turn& turn) {
  const queue::SharedReceiveQueue* current = send_.connection.receives.shared();
  if (current != nullptr && current->options().xrc.number == number) [[likely]]
    return true;
  queue::SharedReceiveQueue* named = find_receives(send_.connection, number);
  if (named == nullptr) turn.counters.add(Counter::kDropUnknownSrq);
  if (named == nullptr || message_.kind != Kind::kNone) {
    refuse(RequestStatus::kInvalidRequest, turn);
    return false;
  }
  // What is lost of the messages before is revised in the completion queue that they all have.
  if (turn.placer.dirty()) commit_placements(turn);
  if (send_.connection.broken) [[unlikely]]
    return false;
  turn_to(send_.connection, *named);
  return true;
}

/// A packet behind a gap: NAK once, or not yet on a path that reorders, then silence until the missing packet
/// is here. What follows it within a window may be kept meanwhile. After an RNR NAK it is dropped without a
/// NAK, for the peer is about to stop and send all of it again. A peer that goes back has to pass what is
/// kept whether the missing packet is lost or late, so it is told at once.
void RcResponder::receive_ahead(const wire::Packet& packet, Turn& turn) {
  const Psn psn = packet.headers.bth.psn;
  UROCE_ASSERT(psn.after(expected_));
  undisturbed_ = false;
  const bool quiet = turn.now < rnr_quiet_until_;
  send_.connection.again = !quiet && send_.connection.may_keep(psn, expected_);
  if (!send_.connection.again) {
    drop_out_of_order(psn, turn);
  } else if (goes_back(packet)) {
    expect_again(psn);
  }
  if (nak_given_ || quiet || !(goes_back(packet) || reordering_.is_lost(expected_, psn))) return;
  nak_given_ = true;
  reordering_.asked(expected_);
  nak_ = Nak::kSequence;
}

void RcResponder::drop_out_of_order(Psn psn, Turn& turn) {
  turn.counters.add(Counter::kDropSequence);
  expect_again(psn);
}

/// The packet is not performed before it has come again, or has been passed.
void RcResponder::expect_again(Psn psn) {
  if (!ahead_dropped_ || psn.after(newest_dropped_)) newest_dropped_ = psn;
  ahead_dropped_ = true;
  undisturbed_ = false;
}

/// Receives a packet that was performed before. A SEND or WRITE that asks for an ACK is acknowledged again,
/// up to the newest one performed; one with the PSN of a READ or an atomic is dropped. A READ is performed
/// again, and the outcome of an atomic sent again. Behind such a response no ACK of less follows: where
/// packets are reordered, rxe ends a READ with success by an older ACK among its responses (rxe_comp.c,
/// check_psn).
void RcResponder::receive_again(const wire::Packet& packet, Turn& turn) {
  const Psn psn = packet.headers.bth.psn;
  UROCE_ASSERT(psn.before(expected_));
  turn.counters.add(Counter::kDuplicateRequest);
  reordering_.came_again(psn);
  if (takes_responder_resource(packet.row->family)) {
    const OperationRequest request = request_in(packet.row->family, packet, send_.connection.mtu);
    if (!responses_.repeat(request, send_.connection.mtu)) return turn.counters.add(Counter::kDropResources);
    if (ack_psn_.before(psn)) send_.connection.acks.settled();
    return;
  }
  // PSNs wrap around: behind 2^23 READs without a SEND or WRITE, ack_psn_ says nothing.
  const bool performed = !psn.after(ack_psn_) && ack_psn_.before(expected_);
  if (packet.headers.bth.ack_request && performed && !responses_.answers_behind(ack_psn_))
    send_.connection.acks.require();
}

/// Refuses a packet, and names its key in notices. A WRITE with immediate that may not write completes the
/// receive that it would have completed (IBV_WC_LOC_ACCESS_ERR). One that finds the memory gone flushes it:
/// that is mostly found when the burst is committed, after the packet was accepted.
void RcResponder::refuse_packet(RequestStatus status, const wire::Packet& packet, Turn& turn) {
  const bool announced = status == RequestStatus::kRemoteAccess && packet.row->consumes_receive;
  if (announced && send_.connection.receives.available())
    fail_receive(CompletionStatus::kLocalAccessError, turn);
  if (status == RequestStatus::kRemoteAccess) send_.connection.refused_key = key_of(packet);
  refuse(status, turn);
}

/// The key that the packet names, or the first packet of its message did.
[[gnu::cold]] MemoryKey RcResponder::key_of(const wire::Packet& packet) const {
  if (packet.row->family == wire::Family::kAtomic) return packet.headers.atomic.rkey;
  const bool names = packet.row->family != wire::Family::kWrite || begins_message(*packet.row);
  return names ? packet.headers.reth.rkey : message_.target.rkey;
}

void RcResponder::refuse(RequestStatus status, Turn& turn) {
  UROCE_ASSERT(status != RequestStatus::kAccept);
  switch (status) {
    case RequestStatus::kNotReady:
      nak_ = Nak::kRnr;
      nak_given_ = undisturbed_ = false;
      rnr_quiet_until_ = turn.now + rnr_wait(send_.connection.attributes.min_rnr_timer);
      return;
    case RequestStatus::kTooLong:
      fail_receive(CompletionStatus::kLocalLengthError, turn);
      nak_ = Nak::kInvalidRequest;
      break;
    case RequestStatus::kRemoteOperational:
      turn.counters.add(Counter::kLocalProtectionError);
      fail_receive(CompletionStatus::kLocalProtectionError, turn);
      nak_ = Nak::kOperational;
      break;
    case RequestStatus::kRemoteInvalidate:
      fail_receive(CompletionStatus::kRemoteInvalidRequest, turn);
      nak_ = Nak::kRemoteAccess;
      break;
    case RequestStatus::kRemoteAccess:
      nak_ = Nak::kRemoteAccess;
      send_.connection.raise(Event::kAccessError);
      break;
    case RequestStatus::kInvalidRequest:
    case RequestStatus::kNotPermitted:
    case RequestStatus::kAccept:
      nak_ = Nak::kInvalidRequest;
      send_.connection.raise(Event::kRequestError);
      break;
  }
  send_.connection.broken = true;
  send_.connection.failure = nak_ == Nak::kOperational                ? Failure::kReceiveMemory
                             : nak_ == Nak::kRemoteAccess             ? Failure::kAccessRefused
                             : status == RequestStatus::kNotPermitted ? Failure::kOperationRefused
                                                                      : Failure::kInvalidRefused;
}

/// Refuses only with what the packet could be answered in earnest: an RNR NAK where a receive is needed, and
/// an operational error where there is one to fail.
bool RcResponder::refuse_due(const wire::Packet& packet, RequestStatus status, Turn& turn) {
  if (packet.headers.bth.psn != expected_) return false;
  const bool send = packet.row->family == wire::Family::kSend;
  const bool needs_receive = send ? message_.kind == Kind::kNone : packet.row->consumes_receive;
  const bool may_fail = send && !send_.connection.is_xrc_target() && send_.connection.receives.available();
  if (status == RequestStatus::kNotReady && !needs_receive) return false;
  if (status == RequestStatus::kRemoteOperational && !may_fail) return false;
  refuse(status, turn);
  return true;
}

void RcResponder::fail_receive(CompletionStatus status, Turn& turn) {
  report_receive(send_.connection, turn, {.opcode = CompletionOpcode::kReceive, .status = status});
}

/// Invalidates the key that the last packet of a SEND names, before its bytes are placed: that is the last of
/// the checks. The SEND is complete when no poller can be at the memory any more. False: it was refused, or
/// shall be shown again.
bool RcResponder::invalidate(const wire::Packet& packet, Turn& turn) {
  using mem::Invalidation;
  const Invalidation::Answer answer =
      begin_invalidation(send_.connection, turn, packet.headers.invalidate, Waiter::kReceive);
  if (answer == Invalidation::Answer::kRefused) refuse(RequestStatus::kRemoteInvalidate, turn);
  send_.connection.again = answer == Invalidation::Answer::kBusy;
  return answer == Invalidation::Answer::kOver || answer == Invalidation::Answer::kPending;
}

void RcResponder::invalidated(Turn& turn) {
  UROCE_ASSERT(!send_.connection.stalled && send_.connection.waiter == Waiter::kNone);
  UROCE_ASSERT(message_.kind != Kind::kWrite);
  ++msn_;
  received_.add(message_.received);
  report_receive(send_.connection, turn,
                 {.opcode = CompletionOpcode::kReceive,
                  .solicited = waiting_solicited_,
                  .has_invalidated = true,
                  .bytes = message_.received,
                  .immediate = message_.target.rkey.value});
  message_.kind = Kind::kNone;
  if (waiting_ack_) send_.connection.acks.require();
  arrived();
}

void RcResponder::lost(const copy::MessageMark& mark, Turn& turn) {
  UROCE_ASSERT(mark.kind != copy::MessageMark::Kind::kRead && !Msn(mark.msn).after(msn_));
  turn.counters.add(Counter::kMemoryGone);
  // Unless an earlier one was lost or refused.
  const bool waits = send_.connection.waiter == Waiter::kReceive && mark.psn == expected_;
  if (!mark.psn.before(expected_) && !waits) return;
  const bool send = mark.kind == copy::MessageMark::Kind::kSend;
  if (send) turn.counters.add(Counter::kLocalProtectionError);
  // Not reported yet: the rest of it is still to come, or it waits for an invalidation.
  const bool unreported = Msn(mark.msn) == msn_ && !send_.connection.broken;
  if (send && unreported) {
    fail_receive(CompletionStatus::kLocalProtectionError, turn);
  } else {
    revise_receives(send_.connection, turn, mark);
  }
  responses_.drop_from(mark.psn);
  expected_ = mark.psn;
  msn_ = Msn(mark.msn);
  message_ = {};
  nak_ = send ? Nak::kOperational : Nak::kRemoteAccess;
  if (!send) send_.connection.raise(Event::kAccessError);
  send_.connection.broken = true;
  send_.connection.failure = send ? Failure::kReceiveMemory : Failure::kMemoryGone;
}

/// A NAK that has not left yet is still due, for the packet that is missing now, if later ones have to come
/// again. Otherwise an ACK takes its place, if the packet `needs_ack`.
void RcResponder::arrived_after_gap(bool needs_ack) {
  nak_given_ = false;
  rnr_quiet_until_ = {};
  if (ahead_dropped_ && newest_dropped_.before(expected_)) ahead_dropped_ = false;
  undisturbed_ = !ahead_dropped_;
  if (nak_ != Nak::kSequence && nak_ != Nak::kRnr) return;
  nak_ = ahead_dropped_ ? Nak::kSequence : Nak::kNone;
  nak_given_ = ahead_dropped_;
  if (needs_ack && !ahead_dropped_) send_.connection.acks.require();
}

}  // namespace uroce::qp
