#include "qp/completer.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/contract.h"
#include "base/probe.h"
#include "qp/completion_report.h"
#include "qp/local_operation.h"
#include "qp/nak_effects.h"
#include "qp/placements.h"
#include "qp/shown_latency.h"

namespace uroce::qp {

using queue::CompletionStatus;
using queue::SendOperation;
using queue::SendRequest;
using wire::AethKind;
using wire::NakCode;

void Completer::reset() {
  cursor_.restart();
  acknowledged_.reset();
  lost_ = false;
}

void Completer::receive(const wire::Packet& packet, Turn& turn) {
  UROCE_ASSERT(packet.row->response && connection_.reliable && !connection_.stalled);
  const Psn psn = packet.headers.bth.psn;
  const wire::Aeth& aeth = packet.headers.aeth;
  const bool has_aeth = packet.row->headers.has(wire::Header::kAeth);
  if (psn.before(window_.oldest())) return receive_stale(packet, turn);
  if ((has_aeth && aeth.kind != AethKind::kAck) || !psn.before(window_.sent_end()))
    return receive_refusal(packet, turn);
  // It acknowledges something that was sent, and is progress, or else note_missing().
  if (has_aeth) window_.take_credits(Msn(aeth.msn), aeth.value);
  if (packet.row->family == wire::Family::kReadResponse) return receive_read_response(packet, turn);
  if (packet.row->headers.has(wire::Header::kAtomicAckEth)) return receive_atomic_response(packet, turn);
  receive_ack(psn, turn);
}

/// An answer to what was answered before. If that is the newest so far its credits count: a peer that has got
/// new receives may say so unasked.
void Completer::receive_stale(const wire::Packet& packet, Turn& turn) {
  retransmission_.heard(turn.now);
  turn.counters.add(Counter::kDropStaleAck);
  if (packet.row->family == wire::Family::kReadResponse)
    retransmission_.response_came_again(packet.headers.bth.psn);
  const wire::Aeth& aeth = packet.headers.aeth;
  if (!packet.row->headers.has(wire::Header::kAeth) || aeth.kind != AethKind::kAck) return;
  if (packet.headers.bth.psn == window_.oldest() - 1u) window_.take_credits(Msn(aeth.msn), aeth.value);
}

/// What acknowledges nothing: a NAK, or else it is bad.
void Completer::receive_refusal(const wire::Packet& packet, Turn& turn) {
  const wire::Aeth& aeth = packet.headers.aeth;
  const Psn psn = packet.headers.bth.psn;
  const bool known =
      aeth.kind == AethKind::kRnrNak ||
      (aeth.kind == AethKind::kNak && aeth.value <= static_cast<uint8_t>(NakCode::kRemoteOperational));
  // It may name the packet that comes next: "all before it arrived".
  if (packet.row->opcode.operation() != wire::Operation::kAcknowledge || !known ||
      psn.after(window_.sent_end()))
    return drop(turn);
  retransmission_.heard(turn.now);
  if (!reach(psn, turn) || psn == window_.sent_end()) return;
  UROCE_PROBE3(nak_received, connection_.number.value, psn.value(),
               static_cast<uint32_t>(aeth.kind) << 5 | aeth.value);
  if (aeth.kind == AethKind::kRnrNak) {
    turn.counters.add(Counter::kRnrNakReceived);
    ++connection_.incidents.rnr_naks_received;
    retransmission_.receiver_not_ready(turn, aeth.value);
    return;
  }
  receive_nak(aeth, turn);
}

/// No answer to what was sent.
void Completer::drop(Turn& turn) {
  retransmission_.heard(turn.now);
  turn.counters.add(Counter::kDropBadAck);
}

/// A NAK for the oldest unanswered packet.
void Completer::receive_nak(const wire::Aeth& aeth, Turn& turn) {
  const NakCode code = static_cast<NakCode>(aeth.value);
  turn.counters.add(counter_of(code));
  ++connection_.incidents.naks_received;
  if (code == NakCode::kSequenceError) {
    retransmission_.missing(turn, true);
  } else {
    fail_oldest_send(connection_, turn, status_of(code));
  }
}

void Completer::receive_ack(Psn psn, Turn& turn) {
  if (acknowledge_before(psn + 1, turn)) return;
  // It counts when the responses before it have come, which may not be said once more.
  if (!acknowledged_ || psn.after(*acknowledged_)) acknowledged_ = psn;
  retransmission_.heard(turn.now);
  miss_before(psn + 1, turn);
}

/// All but the head is done with it.
inline void Completer::retire(const SendRequest& head, uint32_t messages, Turn& turn) {
  UROCE_ASSERT(&head == &window_.head());
  report_success(connection_, turn, head);
  window_.retire_head(messages);
  if (window_.head_is_executed()) [[unlikely]]
    retire_executed(connection_, window_, turn);
}

/// `psns` were answered by what came.
inline void Completer::settle(uint32_t psns, Turn& turn) {
  UROCE_ASSERT(psns > 0);
  window_.settle();
  connection_.acknowledged_in = turn.call;
  if (retransmission_.progress(psns, turn.now)) [[unlikely]]
    show_round_trip(turn);
}

void Completer::show_round_trip(const Turn& turn) {
  if (turn.latencies == nullptr) return;
  const Latency latency = latency_of(retransmission_.shown_operation());
  turn.latencies->of(latency).record(retransmission_.round_trip().newest().ns);
}

/// The oldest requests that are messages, as far as all of their packets are before `end`.
inline void Completer::retire_messages(Psn end, Turn& turn) {
  queue::SendQueue& queue = *connection_.send_queue;
  const uint32_t first = queue.retired();
  Psn oldest = window_.oldest();
  Traffic done;
  while (oldest != end && !connection_.broken) {
    const SendRequest& head = queue.at(first + static_cast<uint32_t>(done.messages));
    const Psn head_end = SendWindow::end_of(head);
    if (!queue::is_message(head.operation) || head_end.after(end)) break;
    oldest = head_end;
    done.add(head.length);
    report_success(connection_, turn, head);
  }
  window_.retire_messages(done, oldest);
}

/// Everything before `end` (not later than sent_end()) is acknowledged. Only its responses answer a READ or
/// an atomic: false when an unanswered one stands in the way, which then is an implied NAK (lib/README.md,
/// wire fact 5).
bool Completer::acknowledge_before(Psn end, Turn& turn) {
  UROCE_ASSERT(!end.before(window_.oldest()) && !end.after(window_.sent_end()));
  const Psn from = window_.oldest();
  retire_messages(end, turn);
  while (window_.head_is_executed()) [[unlikely]] {
    retire_executed(connection_, window_, turn);
    retire_messages(end, turn);
  }
  bool reached = true;
  if (window_.oldest() != end && !connection_.broken) {
    // Either has an answer of its own, or is a message that goes on behind `end`.
    reached = !needs_own_response(window_.head().operation);
    if (reached) window_.answered_before(end);
  }
  if (window_.oldest() != from) settle(static_cast<uint32_t>(window_.oldest() - from), turn);
  return reached;
}

/// What came is about the oldest request: all before it are acknowledged. Otherwise false, and what there is
/// to be done is done.
inline bool Completer::reach(Psn psn, Turn& turn) {
  if (psn == window_.oldest()) [[likely]]
    return true;
  if (acknowledge_before(psn, turn)) return !connection_.broken;
  note_missing(turn);
  return false;
}

/// The response before this one, or all those of an earlier request, were lost.
void Completer::note_missing(Turn& turn) {
  retransmission_.heard(turn.now);
  if (retransmission_.missing(turn, false)) turn.counters.add(Counter::kImpliedNak);
}

/// The head, which is answered by itself and no READ, got its answer.
void Completer::complete(const SendRequest& head, Turn& turn) {
  UROCE_ASSERT(needs_own_response(head.operation) && head.packets == 1);
  cursor_.restart();
  window_.answered_before(window_.oldest() + 1);
  retire(head, 1, turn);
  settle(1, turn);
  if (acknowledged_) [[unlikely]]
    acknowledge_late(turn);
}

/// The head, a READ, got the last of its answers.
inline void Completer::complete_read(const SendRequest& head, Turn& turn) {
  UROCE_ASSERT(is_read(head.operation) && window_.head_packet(head) + 1 == head.packets);
  cursor_.restart();
  ++reads_completed_;
  window_.answered_before(window_.oldest() + 1);
  retire(head, SendWindow::messages_of_read(head), turn);
  settle(1, turn);
  if (acknowledged_) [[unlikely]]
    acknowledge_late(turn);
}

/// An ACK came before the responses that it is behind.
void Completer::acknowledge_late(Turn& turn) {
  const Psn end = *acknowledged_ + 1;
  if (!end.after(window_.oldest()) || acknowledge_before(end, turn)) return acknowledged_.reset();
  miss_before(end, turn);
}

/// Nearly always the one that is due.
inline void Completer::receive_read_response(const wire::Packet& packet, Turn& turn) {
  if (packet.headers.bth.psn != window_.oldest()) [[unlikely]]
    return receive_response_ahead(packet, turn);
  const SendRequest& head = window_.head();
  if (!is_read(head.operation)) [[unlikely]]
    return receive_empty_response(head, packet, turn);
  place_read_data(head, packet, turn);
}

void Completer::receive_response_ahead(const wire::Packet& packet, Turn& turn) {
  if (reach_by_response(packet, turn)) receive_read_response(packet, turn);
}

/// A response has come, and shows that all requests up to its own have arrived: messages need no more, but
/// responses that are missing have to come first. True: it is due. Otherwise what there is to be done is
/// done, and it may be early.
bool Completer::reach_by_response(const wire::Packet& packet, Turn& turn) {
  const Psn psn = packet.headers.bth.psn;
  if (psn == window_.oldest()) return true;
  if (acknowledge_before(psn, turn)) return !connection_.broken;
  retransmission_.heard(turn.now);
  early_ = psn;
  connection_.again = connection_.may_keep(psn, window_.oldest());
  if (!connection_.again) lose_early(turn);
  return false;
}

void Completer::lose_early(Turn& turn) {
  turn.counters.add(Counter::kDropSequence);
  note_missing(turn);
}

bool Completer::reach_kept(Psn psn, Turn& turn) {
  if (acknowledge_before(psn, turn)) return !connection_.broken;
  if (retransmission_.is_lost(early_)) miss_before(psn, turn);
  return false;
}

/// Responses before `end` are missing.
void Completer::miss_before(Psn end, Turn& turn) {
  if (retransmission_.missing_responses(turn, end)) turn.counters.add(Counter::kImpliedNak);
}

/// An ATOMIC WRITE and a FLUSH are answered by a response without a byte.
void Completer::receive_empty_response(const SendRequest& head, const wire::Packet& packet, Turn& turn) {
  if (!needs_own_response(head.operation) || is_atomic(head.operation)) return drop(turn);
  if (!packet.payload.empty()) return fail_oldest_send(connection_, turn, CompletionStatus::kBadResponse);
  complete(head, turn);
}

void Completer::receive_atomic_response(const wire::Packet& packet, Turn& turn) {
  if (!reach_by_response(packet, turn)) return;
  const SendRequest& head = window_.head();
  if (!is_atomic(head.operation)) return drop(turn);
  // The value is stored at once, for nothing else holds it until the end of the burst.
  commit_placements(turn);
  if (connection_.broken) [[unlikely]]
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

/// The response that is due. Its place in the READ follows from its PSN alone, so it does not matter whether
/// it answers the original request or one for the missing rest.
inline void Completer::place_read_data(const SendRequest& head, const wire::Packet& packet, Turn& turn) {
  const uint32_t index = window_.head_packet(head);
  UROCE_ASSERT(index < head.packets && packet.headers.bth.psn == window_.oldest());
  const bool last = index + 1 == head.packets;
  const uint64_t offset = uint64_t{index} * connection_.mtu;
  const std::span<const std::byte> payload = packet.payload;
  if (payload.size() != std::min<uint64_t>(head.length - offset, connection_.mtu)) [[unlikely]]
    return fail_oldest_send(connection_, turn, CompletionStatus::kBadResponse);
  const mem::RegionEntry::Found found = SegmentCursor::resolve_at_once(
      connection_.send_queue->segments(head), offset, payload.size(),
      {turn.regions, connection_.key_user(), mem::kLocalWrite}, turn.keys.answered_into);
  if (!found.right && !resolve(head, offset, payload.size(), turn)) [[unlikely]]
    return;
  if (head.operation == SendOperation::kReadInvalidate && last && !invalidate(head, turn)) [[unlikely]]
    return;
  if (last || turn.placer.marks_bodies()) {
    turn.placer.next_mark() = {.owner = connection_.placement_owner,
                               .kind = copy::MessageMark::Kind::kRead,
                               .reported = head.signaled || connection_.signal_all,
                               .completions = turn.completions.position(*connection_.send_completions),
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
  if (connection_.stalled) [[unlikely]]
    return;
  if (last) return complete_read(head, turn);
  window_.answered_before(window_.oldest() + 1);
  settle(1, turn);
}

/// Into the turn's range, what is not found at once. False: the head has failed.
bool Completer::resolve(const SendRequest& head, uint64_t offset, uint64_t bytes, Turn& turn) {
  const LocalKeys keys{turn.regions, connection_.key_user(), mem::kLocalWrite};
  if (cursor_.resolve(connection_.send_queue->segments(head), offset, bytes, keys, turn.range)) return true;
  fail_access(turn);
  return false;
}

void Completer::fail_access(Turn& turn) {
  turn.counters.add(Counter::kLocalProtectionError);
  fail_oldest_send(connection_, turn, CompletionStatus::kLocalProtectionError);
}

/// The key that goes with the last bytes of a READ. False: it failed, or the response shall be shown again.
bool Completer::invalidate(const SendRequest& head, Turn& turn) {
  using mem::Invalidation;
  retransmission_.heard(turn.now);
  const Invalidation::Answer answer = begin_invalidation(connection_, turn, head.invalidate, Waiter::kSend);
  connection_.again = answer == Invalidation::Answer::kBusy;
  if (answer == Invalidation::Answer::kRefused)
    fail_oldest_send(connection_, turn, CompletionStatus::kWindowBindError);
  return answer != Invalidation::Answer::kRefused && !connection_.again;
}

void Completer::invalidated(Turn& turn) {
  UROCE_ASSERT(!connection_.stalled && connection_.waiter == Waiter::kNone);
  if (is_read(window_.head().operation)) return complete_read(window_.head(), turn);
  window_.executed();
  retire_executed(connection_, window_, turn);
}

void Completer::lost(const copy::MessageMark& mark, Turn& turn) {
  UROCE_ASSERT(mark.kind == copy::MessageMark::Kind::kRead);
  turn.counters.add(Counter::kMemoryGone);
  if (lost_) return;
  lost_ = true;
  turn.counters.add(Counter::kLocalProtectionError);
  if (mark.msn == reads_completed_) {
    // Not reported yet, unless as failed: the rest of it is still to come, or it waits for an invalidation.
    if (!connection_.broken) fail_oldest_send(connection_, turn, CompletionStatus::kLocalProtectionError);
    return;
  }
  revise_sends(connection_, turn, mark);
  connection_.broken = true;
  connection_.failure = Failure::kLocalProtection;
}

}  // namespace uroce::qp
