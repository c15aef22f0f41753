#include "qp/requester/completer.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/process/probe.h"
#include "base/values/contract.h"
#include "qp/acknowledgement/nak_effects.h"
#include "qp/connection/completion_report.h"
#include "qp/connection/placements.h"
#include "qp/requester/local_operation.h"

namespace uroce::qp {

using queue::CompletionStatus;
using queue::SendOperation;
using queue::SendRequest;
using wire::AethKind;
using wire::NakCode;

void Completer::reset() {
  cursor_.restart();
  acks_ahead_ = false;
  lost_ = false;
}

void Completer::receive(const wire::Packet& packet, Turn& turn) {
  UROCE_ASSERT(packet.row->response && send_.connection.reliable && !send_.connection.stalled);
  const Psn psn = packet.headers.bth.psn;
  const wire::Aeth& aeth = packet.headers.aeth;
  const bool has_aeth = packet.row->headers.has(wire::Header::kAeth);
  if (psn.before(send_.window.oldest())) return receive_stale(packet, turn);
  if ((has_aeth && aeth.kind != AethKind::kAck) || !psn.before(send_.window.sent_end()))
    return receive_refusal(packet, turn);
  // It acknowledges something that was sent, and is progress, or else note_missing().
  if (has_aeth) send_.window.take_credits(Msn(aeth.msn), aeth.value);
  if (packet.row->family == wire::Family::kReadResponse) return receive_read_response(packet, turn);
  if (packet.row->headers.has(wire::Header::kAtomicAckEth)) return receive_atomic_response(packet, turn);
  receive_ack(psn, turn);
}

/// An answer to what was answered before. If that is the newest so far its credits count: a peer that has got
/// new receives may say so unasked.
void Completer::receive_stale(const wire::Packet& packet, Turn& turn) {
  send_.recovery.peer_alive(turn.now);
  turn.counters.add(Counter::kDropStaleAck);
  if (packet.row->family == wire::Family::kReadResponse)
    send_.recovery.response_repeated(packet.headers.bth.psn);
  const wire::Aeth& aeth = packet.headers.aeth;
  if (!packet.row->headers.has(wire::Header::kAeth) || aeth.kind != AethKind::kAck) return;
  if (packet.headers.bth.psn == send_.window.oldest() - 1u)
    send_.window.take_credits(Msn(aeth.msn), aeth.value);
}

/// Receives a packet that acknowledges nothing: a NAK, or a bad packet.
void Completer::receive_refusal(const wire::Packet& packet, Turn& turn) {
  const wire::Aeth& aeth = packet.headers.aeth;
  const Psn psn = packet.headers.bth.psn;
  const bool known =
      aeth.kind == AethKind::kRnrNak ||
      (aeth.kind == AethKind::kNak && aeth.value <= static_cast<uint8_t>(NakCode::kRemoteOperational));
  // It may name the packet that comes next: "all before it arrived".
  if (packet.row->opcode.operation() != wire::Operation::kAcknowledge || !known ||
      psn.after(send_.window.sent_end()))
    return drop(turn);
  send_.recovery.peer_alive(turn.now);
  if (!reach(psn, turn) || psn == send_.window.sent_end()) return;
  UROCE_PROBE3(nak_received, send_.connection.number.value, psn.value(),
               static_cast<uint32_t>(aeth.kind) << 5 | aeth.value);
  if (aeth.kind == AethKind::kRnrNak) {
    turn.counters.add(Counter::kRnrNakReceived);
    ++send_.connection.incidents.rnr_naks_received;
    send_.recovery.rnr_nak(turn, aeth.value);
    return;
  }
  receive_nak(aeth, turn);
}

/// Drops a packet that answers nothing that was sent.
void Completer::drop(Turn& turn) {
  send_.recovery.peer_alive(turn.now);
  turn.counters.add(Counter::kDropBadAck);
}

/// Receives a NAK for the oldest unanswered packet.
void Completer::receive_nak(const wire::Aeth& aeth, Turn& turn) {
  const NakCode code = static_cast<NakCode>(aeth.value);
  turn.counters.add(counter_of(code));
  ++send_.connection.incidents.naks_received;
  if (code == NakCode::kSequenceError) {
    send_.recovery.sequence_nak(turn);
  } else {
    fail_oldest_send(send_.connection, turn, status_of(code));
  }
}

void Completer::receive_ack(Psn psn, Turn& turn) {
  if (acknowledge_before(psn + 1, turn)) return;
  // It counts when the responses before it have come, which may not be said once more.
  if (!std::exchange(acks_ahead_, true) || psn.after(acknowledged_)) acknowledged_ = psn;
  send_.recovery.peer_alive(turn.now);
  miss_before(psn + 1, turn);
}

/// Reports the success of the head, which was `messages` messages to the peer, and retires it, with the local
/// operations behind it that have been executed.
inline void Completer::retire(const SendRequest& head, uint32_t messages, Turn& turn) {
  UROCE_ASSERT(&head == &send_.window.head());
  report_success(send_.connection, turn, head);
  send_.window.retire_head(messages);
  if (send_.window.head_is_executed()) [[unlikely]]
    retire_executed(send_.connection, send_.window, turn);
}

/// After a response that answered `psns` PSNs: the timers and the window follow.
inline void Completer::settle(uint32_t psns, Turn& turn) {
  UROCE_ASSERT(psns > 0);
  send_.window.settle();
  send_.connection.acks.own_acknowledged(turn.call);
  if (send_.recovery.acknowledged(psns, turn.now)) [[unlikely]]
    show_round_trip(turn);
}

void Completer::show_round_trip(const Turn& turn) {
  if (turn.latencies == nullptr) return;
  const Latency latency = queue::latency_of(send_.recovery.shown_operation());
  turn.latencies->of(latency).record(send_.recovery.rtt().newest().ns);
}

/// Reports and retires the oldest requests that are messages, as far as all of their packets are before
/// `end`.
inline void Completer::retire_messages(Psn end, Turn& turn) {
  queue::SendQueue& queue = *send_.connection.send_queue;
  const uint32_t first = queue.retired();
  Psn oldest = send_.window.oldest();
  Traffic done;
  while (oldest != end && !send_.connection.broken) {
    const SendRequest& head = queue.at(first + static_cast<uint32_t>(done.messages));
    const Psn head_end = SendWindow::end_of(head);
    if (!queue::is_message(head.operation) || head_end.after(end)) break;
    oldest = head_end;
    done.add(head.length);
    report_success(send_.connection, turn, head);
  }
  send_.window.retire_messages(done, oldest);
}

/// Everything before `end` (not later than sent_end()) is acknowledged. Only its responses answer a READ or
/// an atomic: false when an unanswered one stands in the way, which then is an implied NAK (lib/README.md,
/// wire fact 5).
bool Completer::acknowledge_before(Psn end, Turn& turn) {
  UROCE_ASSERT(!end.before(send_.window.oldest()) && !end.after(send_.window.sent_end()));
  const Psn from = send_.window.oldest();
  retire_messages(end, turn);
  while (send_.window.head_is_executed()) [[unlikely]] {
    retire_executed(send_.connection, send_.window, turn);
    retire_messages(end, turn);
  }
  bool reached = true;
  if (send_.window.oldest() != end && !send_.connection.broken) {
    // Either has an answer of its own, or is a message that goes on behind `end`.
    reached = !needs_own_response(send_.window.head().operation);
    if (reached) send_.window.answered_before(end);
  }
  if (send_.window.oldest() != from) settle(static_cast<uint32_t>(send_.window.oldest() - from), turn);
  return reached;
}

/// Acknowledges everything before `psn`, which a response is about. False: an unanswered READ or atomic
/// stands in the way, which has been dealt with, or the connection is broken.
inline bool Completer::reach(Psn psn, Turn& turn) {
  if (psn == send_.window.oldest()) [[likely]]
    return true;
  if (acknowledge_before(psn, turn)) return !send_.connection.broken;
  note_missing(turn);
  return false;
}

/// Notes that the response before this one, or all those of an earlier request, were lost.
void Completer::note_missing(Turn& turn) {
  send_.recovery.peer_alive(turn.now);
  if (send_.recovery.implied_nak(turn)) turn.counters.add(Counter::kImpliedNak);
}

/// Completes the head, an atomic, ATOMIC WRITE or FLUSH, whose response has come.
void Completer::complete(const SendRequest& head, Turn& turn) {
  UROCE_ASSERT(needs_own_response(head.operation) && head.packets == 1);
  cursor_.restart();
  send_.window.answered_before(send_.window.oldest() + 1);
  retire(head, 1, turn);
  settle(1, turn);
  if (acks_ahead_) [[unlikely]]
    acknowledge_late(turn);
}

/// Completes the head, a READ, whose last response has come.
inline void Completer::complete_read(const SendRequest& head, Turn& turn) {
  UROCE_ASSERT(is_read(head.operation) && send_.window.head_packet(head) + 1 == head.packets);
  cursor_.restart();
  ++reads_completed_;
  send_.window.answered_before(send_.window.oldest() + 1);
  retire(head, SendWindow::messages_of_read(head), turn);
  settle(1, turn);
  if (acks_ahead_) [[unlikely]]
    acknowledge_late(turn);
}

/// Lets the newest ACK count that came before a response which is due before it, up to the next READ or
/// atomic without a response. To be called when a READ or atomic is complete.
void Completer::acknowledge_late(Turn& turn) {
  const Psn end = acknowledged_ + 1;
  acks_ahead_ = end.after(send_.window.oldest()) && !acknowledge_before(end, turn);
  if (acks_ahead_) miss_before(end, turn);
}

/// Receives a READ response, nearly always the one that is due.
inline void Completer::receive_read_response(const wire::Packet& packet, Turn& turn) {
  if (packet.headers.bth.psn != send_.window.oldest()) [[unlikely]]
    return receive_response_ahead(packet, turn);
  const SendRequest& head = send_.window.head();
  if (!is_read(head.operation)) [[unlikely]]
    return receive_empty_response(head, packet, turn);
  place_read_data(head, packet, turn);
}

void Completer::receive_response_ahead(const wire::Packet& packet, Turn& turn) {
  if (reach_by_response(packet, turn)) receive_read_response(packet, turn);
}

/// Acknowledges the messages before a response, which shows that all requests up to its own have arrived.
/// True: it is due. False: responses before it are missing, and it may be kept, or the connection is broken.
bool Completer::reach_by_response(const wire::Packet& packet, Turn& turn) {
  const Psn psn = packet.headers.bth.psn;
  if (psn == send_.window.oldest()) return true;
  if (acknowledge_before(psn, turn)) return !send_.connection.broken;
  send_.recovery.peer_alive(turn.now);
  early_ = psn;
  send_.connection.again = send_.connection.may_keep(psn, send_.window.oldest());
  if (!send_.connection.again) drop_out_of_order(turn);
  return false;
}

void Completer::drop_out_of_order(Turn& turn) {
  turn.counters.add(Counter::kDropSequence);
  note_missing(turn);
}

bool Completer::reach_kept(Psn psn, Turn& turn) {
  if (acknowledge_before(psn, turn)) return !send_.connection.broken;
  if (send_.recovery.is_lost(early_)) miss_before(psn, turn);
  return false;
}

/// Has the responses before `end` asked for again that are missing.
void Completer::miss_before(Psn end, Turn& turn) {
  if (send_.recovery.responses_missing(turn, end)) turn.counters.add(Counter::kImpliedNak);
}

/// Receives a READ response for a head that is no READ: one without payload answers an ATOMIC WRITE or a
/// FLUSH.
void Completer::receive_empty_response(const SendRequest& head, const wire::Packet& packet, Turn& turn) {
  if (!needs_own_response(head.operation) || is_atomic(head.operation)) return drop(turn);
  if (!packet.payload.empty())
    return fail_oldest_send(send_.connection, turn, CompletionStatus::kBadResponse);
  complete(head, turn);
}

void Completer::receive_atomic_response(const wire::Packet& packet, Turn& turn) {
  if (!reach_by_response(packet, turn)) return;
  const SendRequest& head = send_.window.head();
  if (!is_atomic(head.operation)) return drop(turn);
  // The value is stored at once, for nothing else holds it until the end of the burst.
  commit_placements(turn);
  if (send_.connection.broken) [[unlikely]]
    return;
  std::array<std::byte, queue::kAtomicBytes> original;
  std::memcpy(original.data(), &packet.headers.atomic_original, original.size());
  if (!resolve(head, 0, original.size(), turn)) return;
  if (!turn.range.store(original)) {
    turn.counters.add(Counter::kMemoryGone);
    return fail_access(turn);
  }
  complete(head, turn);
}

/// Places the response that is due. Its place in the READ follows from its PSN alone, so it does not matter
/// whether it answers the original request or one for the missing rest.
inline void Completer::place_read_data(const SendRequest& head, const wire::Packet& packet, Turn& turn) {
  const uint32_t index = send_.window.head_packet(head);
  UROCE_ASSERT(index < head.packets && packet.headers.bth.psn == send_.window.oldest());
  const bool last = index + 1 == head.packets;
  const uint64_t offset = uint64_t{index} * send_.connection.mtu;
  const std::span<const std::byte> payload = packet.payload;
  if (payload.size() != std::min<uint64_t>(head.length - offset, send_.connection.mtu)) [[unlikely]]
    return fail_oldest_send(send_.connection, turn, CompletionStatus::kLocalLengthError);
  const mem::RegionEntry::Found found = SegmentCursor::resolve_at_once(
      send_.connection.send_queue->segments(head), offset, payload.size(),
      {turn.regions, send_.connection.key_user(), mem::kLocalWrite}, turn.keys.answered_into);
  if (!found.right && !resolve(head, offset, payload.size(), turn)) [[unlikely]]
    return;
  if (head.operation == SendOperation::kReadInvalidate && last && !invalidate(head, turn)) [[unlikely]]
    return;
  if (last || turn.placer.marks_bodies()) {
    turn.placer.next_mark() = {.owner = send_.connection.placement_owner,
                               .kind = copy::MessageMark::Kind::kRead,
                               .reported = head.signaled || send_.connection.signal_all,
                               .completions = turn.completions.position(*send_.connection.send_completions),
                               .psn = packet.headers.bth.psn,
                               .msn = reads_completed_,
                               .wr_id = head.wr_id};
  }
  const bool placed = !found.right ? turn.range.place(turn.placer, payload, last)
                      : last
                          ? turn.placer.place_last(found.data, payload.data(), payload.size(), found.nature)
                          : turn.placer.place(found.data, payload.data(), payload.size(), found.nature);
  if (!placed) [[unlikely]] {
    turn.counters.add(Counter::kMemoryGone);
    return fail_access(turn);
  }
  if (send_.connection.stalled) [[unlikely]]
    return;
  if (last) return complete_read(head, turn);
  send_.window.answered_before(send_.window.oldest() + 1);
  settle(1, turn);
}

/// Resolves `bytes` bytes of the head's memory, from `offset` on, into the turn's range. False: the head has
/// failed.
bool Completer::resolve(const SendRequest& head, uint64_t offset, uint64_t bytes, Turn& turn) {
  const LocalKeys keys{turn.regions, send_.connection.key_user(), mem::kLocalWrite};
  if (cursor_.resolve(send_.connection.send_queue->segments(head), offset, bytes, keys, turn.range))
    return true;
  fail_access(turn);
  return false;
}

void Completer::fail_access(Turn& turn) {
  turn.counters.add(Counter::kLocalProtectionError);
  fail_oldest_send(send_.connection, turn, CompletionStatus::kLocalProtectionError);
}

/// Invalidates the key of a READ with invalidate, whose last bytes have come. False: it failed, or the
/// response is to be shown again.
bool Completer::invalidate(const SendRequest& head, Turn& turn) {
  using mem::Invalidation;
  send_.recovery.peer_alive(turn.now);
  const Invalidation::Answer answer =
      begin_invalidation(send_.connection, turn, head.invalidate, Waiter::kSend);
  send_.connection.again = answer == Invalidation::Answer::kBusy;
  if (answer == Invalidation::Answer::kRefused)
    fail_oldest_send(send_.connection, turn, CompletionStatus::kWindowBindError);
  return answer != Invalidation::Answer::kRefused && !send_.connection.again;
}

void Completer::invalidated(Turn& turn) {
  UROCE_ASSERT(!send_.connection.stalled && send_.connection.waiter == Waiter::kNone);
  if (is_read(send_.window.head().operation)) return complete_read(send_.window.head(), turn);
  send_.window.executed();
  retire_executed(send_.connection, send_.window, turn);
}

void Completer::lost(const copy::MessageMark& mark, Turn& turn) {
  UROCE_ASSERT(mark.kind == copy::MessageMark::Kind::kRead);
  turn.counters.add(Counter::kMemoryGone);
  if (lost_) return;
  lost_ = true;
  turn.counters.add(Counter::kLocalProtectionError);
  if (mark.msn == reads_completed_) {
    // Not reported yet, unless as failed: the rest of it is still to come, or it waits for an invalidation.
    if (!send_.connection.broken)
      fail_oldest_send(send_.connection, turn, CompletionStatus::kLocalProtectionError);
    return;
  }
  revise_sends(send_.connection, turn, mark);
  send_.connection.broken = true;
  send_.connection.failure = Failure::kLocalProtection;
}

}  // namespace uroce::qp
