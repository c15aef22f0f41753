#include "qp/completer.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "qp/completion_report.h"
#include "qp/local_operation.h"
#include "qp/queue_pair.h"

namespace uroce::qp {

using queue::CompletionStatus;
using queue::SendOperation;
using queue::SendRequest;
using wire::AethKind;
using wire::NakCode;

namespace {

/// The status in which the refused request completes (protocol.md 6).
CompletionStatus status_of(NakCode code) {
  switch (code) {
    case NakCode::kInvalidRequest:
      return CompletionStatus::kRemoteInvalidRequest;
    case NakCode::kRemoteAccess:
      return CompletionStatus::kRemoteAccessError;
    default:
      return CompletionStatus::kRemoteOperationError;
  }
}

Counter counter_of(NakCode code) {
  switch (code) {
    case NakCode::kSequenceError:
      return Counter::kSequenceNakReceived;
    case NakCode::kInvalidRequest:
      return Counter::kInvalidRequestNakReceived;
    case NakCode::kRemoteAccess:
      return Counter::kAccessNakReceived;
    case NakCode::kRemoteOperational:
      return Counter::kOperationalNakReceived;
    case NakCode::kInvalidRdRequest:
      break;
  }
  return Counter::kDropBadAck;
}

}  // namespace

void Completer::reset() {
  cursor_.restart();
  lost_ = false;
}

void Completer::receive(const wire::Packet& packet, Turn& turn) {
  const Psn psn = packet.headers.bth.psn;
  retransmission_.heard(turn.now);
  take_credits(packet);
  if (psn.before(window_.oldest())) {
    turn.counters.add(Counter::kDropStaleAck);
    return;
  }
  if (packet.row->family == wire::Family::kReadResponse) return receive_read_response(packet, turn);
  if (packet.row->headers.has(wire::Header::kAtomicAckEth)) return receive_atomic_response(packet, turn);
  receive_ack(packet, turn);
}

/// Also from an answer to the newest packet that was answered before: a peer that has got new receives may
/// say so unasked.
void Completer::take_credits(const wire::Packet& packet) {
  const Psn psn = packet.headers.bth.psn;
  const wire::Aeth& aeth = packet.headers.aeth;
  if (!packet.row->headers.has(wire::Header::kAeth) || aeth.kind != AethKind::kAck) return;
  if (psn.before(window_.oldest() - 1u) || !psn.before(window_.sent_end())) return;
  window_.take_credits(aeth.msn, aeth.value);
}

/// The oldest `psns`, which belong to the head, are answered; `done` when that is all of it.
inline void Completer::answer(const SendRequest& head, uint32_t psns, bool done, Turn& turn) {
  if (done) report_success(connection_, turn, head);
  window_.answered(head, psns, done);
  if (done && window_.head_is_executed()) [[unlikely]]
    retire_executed(connection_, window_, turn);
}

/// `psns` were answered by what came.
inline void Completer::settle(uint32_t psns, Turn& turn) {
  window_.settle();
  retransmission_.progress(psns, turn.now);
}

/// The head, which is answered by itself, got one more of its answers.
void Completer::complete(bool done, Turn& turn) {
  const SendRequest& head = window_.head();
  if (done) {
    if (is_read(head.operation)) ++reads_completed_;
    cursor_.restart();
  }
  answer(head, 1, done, turn);
  settle(1, turn);
}

/// Everything before `end` (not later than sent_end()) is acknowledged. Only its responses answer a READ or
/// an atomic: false when an unanswered one stands in the way, which then is an implied NAK (protocol.md 5).
bool Completer::acknowledge_before(Psn end, Turn& turn) {
  const Psn from = window_.oldest();
  bool reached = true;
  while (window_.oldest() != end && !connection_.broken) {
    const SendRequest& head = window_.head();
    reached = !is_answered_by_itself(head.operation);
    if (!reached) break;
    const uint32_t left = head.packets - window_.head_packet(head);
    const uint32_t newly = std::min(left, static_cast<uint32_t>(end - window_.oldest()));
    answer(head, newly, newly == left, turn);
  }
  if (window_.oldest() != from) settle(static_cast<uint32_t>(window_.oldest() - from), turn);
  return reached;
}

void Completer::receive_ack(const wire::Packet& packet, Turn& turn) {
  const wire::Aeth& aeth = packet.headers.aeth;
  const Psn psn = packet.headers.bth.psn;
  const bool ack = aeth.kind == AethKind::kAck;
  const bool known =
      ack || aeth.kind == AethKind::kRnrNak ||
      (aeth.kind == AethKind::kNak && aeth.value <= static_cast<uint8_t>(NakCode::kRemoteOperational));
  // A NAK may name the packet that comes next: "all before it arrived".
  const Psn newest = ack ? window_.sent_end() - 1u : window_.sent_end();
  if (!known || psn.after(newest)) {
    turn.counters.add(Counter::kDropBadAck);
    return;
  }
  // An ACK answers its own PSN too, a NAK only what is before it.
  if (!acknowledge_before(ack ? psn + 1 : psn, turn)) {
    if (retransmission_.missing(turn)) turn.counters.add(Counter::kImpliedNak);
    return;
  }
  if (connection_.broken || ack) return;
  if (psn == window_.sent_end()) return;
  if (aeth.kind == AethKind::kRnrNak) {
    turn.counters.add(Counter::kRnrNakReceived);
    retransmission_.receiver_not_ready(turn, aeth.value);
    return;
  }
  receive_nak(aeth, turn);
}

/// A NAK for the oldest unanswered packet.
void Completer::receive_nak(const wire::Aeth& aeth, Turn& turn) {
  const NakCode code = static_cast<NakCode>(aeth.value);
  turn.counters.add(counter_of(code));
  if (code == NakCode::kSequenceError) {
    retransmission_.missing(turn);
  } else {
    fail_oldest_send(connection_, turn, status_of(code));
  }
}

/// A response to the oldest request, which all before it are acknowledged by; otherwise false, and what there
/// is to be done is done.
bool Completer::reach(const wire::Packet& packet, Turn& turn) {
  const Psn psn = packet.headers.bth.psn;
  const bool acknowledges =
      !packet.row->headers.has(wire::Header::kAeth) || packet.headers.aeth.kind == AethKind::kAck;
  if (!acknowledges || !psn.before(window_.sent_end())) {
    turn.counters.add(Counter::kDropBadAck);
    return false;
  }
  if (!acknowledge_before(psn, turn)) {
    // The response before this one, or all those of an earlier request, were lost.
    if (retransmission_.missing(turn)) turn.counters.add(Counter::kImpliedNak);
    return false;
  }
  return !connection_.broken;
}

void Completer::receive_read_response(const wire::Packet& packet, Turn& turn) {
  if (!reach(packet, turn)) return;
  const SendOperation operation = window_.head().operation;
  if (is_read(operation)) return place_read_data(packet, turn);
  // An ATOMIC WRITE and a FLUSH are answered by a response without a byte.
  if (!is_answered_by_itself(operation) || is_atomic(operation))
    return turn.counters.add(Counter::kDropBadAck);
  if (!packet.payload.empty()) return fail_oldest_send(connection_, turn, CompletionStatus::kBadResponse);
  complete(true, turn);
}

void Completer::receive_atomic_response(const wire::Packet& packet, Turn& turn) {
  if (!reach(packet, turn)) return;
  const SendRequest& head = window_.head();
  if (!is_atomic(head.operation)) return turn.counters.add(Counter::kDropBadAck);
  // The value is stored at once, for nothing else holds it until the end of the burst.
  commit_placements(turn);
  if (connection_.broken) [[unlikely]]
    return;
  const LocalKeys keys{turn.regions, connection_.key_user(), mem::kLocalWrite};
  const auto segments = connection_.options.send_queue->segments(head);
  std::array<std::byte, queue::kAtomicBytes> original;
  std::memcpy(original.data(), &packet.headers.atomic_original, original.size());
  const bool resolved = cursor_.resolve(segments, 0, original.size(), keys, range_);
  if (!resolved || !range_.store(original)) {
    if (resolved) turn.counters.add(Counter::kMemoryGone);
    turn.counters.add(Counter::kLocalProtectionError);
    return fail_oldest_send(connection_, turn, CompletionStatus::kLocalProtectionError);
  }
  complete(true, turn);
}

/// The response that is due. Its place in the READ follows from its PSN alone, so it does not matter whether
/// it answers the original request or one for the missing rest.
void Completer::place_read_data(const wire::Packet& packet, Turn& turn) {
  const SendRequest& head = window_.head();
  const uint32_t index = window_.head_packet(head);
  const bool last = index + 1 == head.packets;
  const uint64_t offset = uint64_t{index} * connection_.mtu;
  const uint64_t bytes = std::min<uint64_t>(head.length - offset, connection_.mtu);
  if (packet.payload.size() != bytes) {
    fail_oldest_send(connection_, turn, CompletionStatus::kBadResponse);
    return;
  }
  const LocalKeys keys{turn.regions, connection_.key_user(), mem::kLocalWrite};
  if (!cursor_.resolve(connection_.options.send_queue->segments(head), offset, bytes, keys, range_)) {
    turn.counters.add(Counter::kLocalProtectionError);
    fail_oldest_send(connection_, turn, CompletionStatus::kLocalProtectionError);
    return;
  }
  if (last && head.operation == SendOperation::kReadInvalidate) {
    using mem::Invalidation;
    const Invalidation::Answer answer = begin_invalidation(connection_, turn, head.invalidate, Waiter::kSend);
    if (answer == Invalidation::Answer::kRefused)
      return fail_oldest_send(connection_, turn, CompletionStatus::kWindowBindError);
    connection_.again = answer == Invalidation::Answer::kBusy;
    if (connection_.again) return;
  }
  turn.placer.next_mark() = {.owner = connection_.queue_pair,
                             .kind = copy::MessageMark::Kind::kRead,
                             .reported = head.signaled || connection_.options.signal_all,
                             .completions = turn.completions.position(*connection_.options.send_completions),
                             .psn = packet.headers.bth.psn,
                             .msn = reads_completed_,
                             .wr_id = head.wr_id};
  if (!range_.place(turn.placer, packet.payload, last)) [[unlikely]] {
    turn.counters.add(Counter::kMemoryGone);
    turn.counters.add(Counter::kLocalProtectionError);
    fail_oldest_send(connection_, turn, CompletionStatus::kLocalProtectionError);
    return;
  }
  if (connection_.stalled) [[unlikely]]
    return;
  complete(last, turn);
}

void Completer::invalidated(Turn& turn) {
  if (is_read(window_.head().operation)) return complete(true, turn);
  window_.start(window_.current(), 0);
  window_.pass();
  retire_executed(connection_, window_, turn);
}

void Completer::lost(const copy::MessageMark& mark, Turn& turn) {
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
}

}  // namespace uroce::qp
