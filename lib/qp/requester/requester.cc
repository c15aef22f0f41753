#include "qp/requester/requester.h"

#include <algorithm>

#include "base/values/contract.h"
#include "qp/connection/completion_report.h"
#include "qp/requester/message_opcodes.h"

namespace uroce::qp {

using mem::Invalidation;
using queue::CompletionStatus;
using queue::SendOperation;
using queue::SendRequest;
using wire::Operation;

void Requester::reset() {
  cursor_.restart();
  cursor_number_ = send_.connection.send_queue->retired();
  unasked_ = shall_ask_ = false;
  run_ = {};
}

Pumped Requester::pump(Turn& turn, uint32_t budget) {
  UROCE_ASSERT(send_.connection.state() == State::kRts || send_.connection.state() == State::kSqd);
  const LossRecovery::Next next = send_.recovery.next(turn.now);
  if (next == LossRecovery::Next::kNothing) return {};
  uint32_t frames = 0;
  uint32_t resent_frames = 0;
  uint32_t frames_before_probe = UINT32_MAX;
  bool more = false;
  if (next == LossRecovery::Next::kOldest) [[unlikely]] {
    const Pumped resent = resend_oldest(turn, budget);
    if (resent.more || send_.connection.broken) return resent;
    frames = resent_frames = resent.frames;
  }
  // One look at the posting thread's counter per pump.
  published_ = send_.connection.send_queue->published();
  const bool limited = send_.connection.congestion.limits();
  const uint32_t window = !limited ? send_.recovery.window() : limited_window(turn.now);
  // What follows may be long in coming.
  asks_each_ =
      window < LossRecovery::kWindowLeast || send_.connection.signal_all || std::exchange(shall_ask_, false);
  const bool paced = limited && begin_limited();
  bool held_back = false;
  while (send_.window.number() != published_ && send_.window.unanswered() < window) {
    SendRequest& request = send_.window.current();
    if (goes_on(request) && !paced) {
      if (const uint32_t built = build_run(turn, budget - frames, window); built > 0) [[likely]] {
        frames += built;
        continue;
      }
    }
    if (is_local(request.operation)) [[unlikely]] {
      if (!execute_current(turn, more)) break;
      continue;
    }
    if (!send_.window.current_started() && !start(request, turn)) break;
    if (lacks_credit(request)) [[unlikely]] {
      // One message may go to ask for more, when all before it are answered.
      if (send_.window.unanswered() > 0) break;
      frames_before_probe = frames;
    }
    if (!may_go(request)) break;
    if (paced && (held_back = send_.connection.holds_request(turn.now))) break;
    port::TxFrame* frame = frames < budget ? turn.tx.next() : nullptr;
    if (frame == nullptr) {
      more = true;
      break;
    }
    if (!build(request, turn, *frame)) break;
    if (RequestRun::may_begin(request)) begin_run(request, *frame);
    if (paced) send_.connection.note_request_left(frame->length);
    turn.tx.commit();
    ++frames;
  }
  if (unasked_ && !more && !held_back) [[unlikely]]
    more = ask_again(window);
  if (frames > frames_before_probe) turn.counters.add(Counter::kCreditProbes);
  if (frames > resent_frames) send_.recovery.sent(turn.now);
  if (limited) [[unlikely]]
    note_limited(window);
  if (turn.shared && send_.window.unanswered() >= LossRecovery::kSharedLeast) [[unlikely]]
    send_.recovery.adapt_window_to_rtt(turn.now);
  return {.frames = frames, .more = more};
}

/// Gives the current request its PSNs. False: in SQD nothing new is begun, or it can never be sent.
inline bool Requester::start(SendRequest& request, Turn& turn) {
  if (send_.connection.state() == State::kSqd) [[unlikely]]
    return false;
  uint32_t packets = 1;
  if (request.length > send_.connection.mtu || !is_message(request.operation)) {
    const CompletionStatus refusal = refusal_of(request, turn);
    if (refusal != CompletionStatus::kSuccess) return fail_current(turn, refusal);
    if (request.length > send_.connection.mtu && moves_data(request.operation)) {
      packets = (request.length + send_.connection.mtu - 1) / send_.connection.mtu;
      const bool short_parts = turn.shared || send_.connection.congestion.limits();
      request.part_shift = short_parts ? short_part_shift(packets) : SendWindow::kPartShift;
    }
  }
  UROCE_ASSERT(uint64_t{packets} * send_.connection.mtu >= request.length || !moves_data(request.operation));
  send_.window.start(request, packets);
  return true;
}

CompletionStatus Requester::refusal_of(const SendRequest& request, Turn& turn) const {
  if (request.length > (send_.connection.connected ? kMessageBytesMax : send_.connection.mtu))
    return CompletionStatus::kLocalLengthError;
  if (is_message(request.operation)) return CompletionStatus::kSuccess;
  if (is_of_a_word(request.operation) && request.length != queue::kAtomicBytes)
    return CompletionStatus::kLocalLengthError;
  if (send_.connection.attributes.max_rd_atomic == 0) return CompletionStatus::kLocalQpOperationError;
  if (request.operation == SendOperation::kReadInvalidate &&
      Invalidation::refuses(turn.regions, request.invalidate, send_.connection.key_user()))
    return CompletionStatus::kWindowBindError;
  return CompletionStatus::kSuccess;
}

/// Whether the request begins a message for which the peer has no receive, as far as its credits tell.
inline bool Requester::lacks_credit(const SendRequest& request) {
  return consumes_receive(request.operation) && !send_.window.has_credit() &&
         send_.window.current_packet(request) == 0;
}

inline bool Requester::may_go(const SendRequest& request) {
  // A fence waits until every earlier READ and atomic is complete; those before the current request are all
  // among reads().
  if (request.fence && send_.window.reads() > 0 && send_.window.current_packet(request) == 0) return false;
  return !needs_own_response(request.operation) ||
         send_.window.reads() < send_.connection.attributes.max_rd_atomic;
}

[[gnu::always_inline]] inline bool Requester::build(SendRequest& request, Turn& turn, port::TxFrame& frame) {
  if (carries_data(request.operation) && request.packets == 1) [[likely]]
    return build_data<true>(request, turn, frame);
  return build_any(request, turn, frame);
}

/// Builds any packet. Not inlined, so that its caller keeps its registers for messages of one packet.
bool Requester::build_any(SendRequest& request, Turn& turn, port::TxFrame& frame) {
  if (carries_data(request.operation)) return build_data<false>(request, turn, frame);
  if (is_read(request.operation)) return build_read(request, turn, frame);
  return build_without_data(request, turn, frame);
}

/// Builds the next packet of a request that carries data. `kOnly`: the packet is all of the message.
template <bool kOnly>
[[gnu::always_inline]] inline bool Requester::build_data(const SendRequest& request, Turn& turn,
                                                         port::TxFrame& frame) {
  const uint32_t packet = kOnly ? 0 : send_.window.current_packet(request);
  const bool last = kOnly || packet + 1 == request.packets;
  const uint64_t offset = uint64_t{packet} * send_.connection.mtu;
  UROCE_ASSERT(packet < request.packets && offset <= request.length);
  Payload payload{.bytes = kOnly ? request.length
                                 : static_cast<uint32_t>(
                                       std::min<uint64_t>(request.length - offset, send_.connection.mtu))};
  if (request.inline_data) {
    payload.data = send_.connection.send_queue->inline_bytes(request) + offset;
  } else {
    if (!find_data(request, turn, offset, payload)) return false;
    // What this turn placed into the same memory must be there before it is read.
    if (turn.placer.dirty()) turn.placer.commit();
  }
  if (!write_data(request, bth_of_data(request, packet == 0, last), payload, frame, turn.tx)) [[unlikely]] {
    turn.counters.add(Counter::kMemoryGone);
    return fail_current(turn, CompletionStatus::kLocalProtectionError);
  }
  note_sent(1, turn);
  if (last) send_.window.end_current(1);
  if (needs_own_response(request.operation)) [[unlikely]]
    send_.window.read_sent();
  return true;
}

/// Whether the packet next(), of the current request, asks for an ACK. `last`: it is the last of its message.
inline bool Requester::asks(const SendRequest& request, bool last) const {
  return send_.window.next().value() % kPacketsPerAck == kPacketsPerAck - 1 || asks_each_ ||
         (last && !is_followed(request));
}

/// The application does not wait for the end of the current request, and the next one will ask: it has been
/// posted already, and the peer has a receive for it, as far as we know.
inline bool Requester::is_followed(const SendRequest& request) const {
  return !request.signaled && send_.window.number() + 1 != published_ && !send_.window.credit_ends();
}

inline wire::PacketBth Requester::bth_of_data(const SendRequest& request, bool first, bool last) {
  wire::PacketBth bth =
      bth_to_peer(send_.connection, opcode_of(request.operation, first, last), send_.window.next());
  if (send_.connection.reliable) {
    bth.ack_request = asks(request, last);
    unasked_ = !bth.ack_request;
  }
  bth.solicited = last && request.solicited;
  return bth;
}

/// Writes a packet with payload. False: some of the payload's memory is gone. Out of line it would cost 40
/// instructions for each packet.
[[gnu::always_inline]] inline bool Requester::write_data(  //
    const SendRequest& request, wire::PacketBth bth, const Payload& payload, port::TxFrame& frame,
    port::TxBatch& tx) {
  // What is rare gets copies, so that these need not be in memory.
  if (!send_.connection.connected) [[unlikely]]
    return write_datagram_of(request, {payload.bytes, payload.data, payload.pieces}, frame, tx);
  const FrameBuilder making(frame, send_.connection, bth, payload.bytes);
  write_extensions(making, request, {request.remote_address, request.rkey, request.length});
  return making.finish(payload, tx);
}

/// The queue pair at an address of this port that a datagram goes to, if it goes to one.
std::optional<QpNumber> Requester::own_destination_of(uint32_t number) const {
  auto& queue = *send_.connection.send_queue;
  const SendRequest& request = queue.at(number);
  if (is_local(request.operation)) return std::nullopt;
  const auto& address = queue.attachment<DatagramAddress>(request);
  return address.to_self ? std::optional(address.destination) : std::nullopt;
}

bool Requester::write_datagram_of(const SendRequest& request, const Payload& payload, port::TxFrame& frame,
                                  port::TxBatch& tx) {
  const auto& address = send_.connection.send_queue->attachment<DatagramAddress>(request);
  const wire::PacketBth bth = bth_of_data(request, true, true);
  wire::Headers headers = headers_of(request, {});
  headers.bth = {
      .opcode = bth.opcode, .solicited = bth.solicited, .ack_request = bth.ack_request, .psn = bth.psn};
  return write_datagram(frame, send_.connection, address, headers, payload, tx);
}

/// Writes the extension headers of a packet: `reth` is its RETH, all else follows from the request.
inline void Requester::write_extensions(const FrameBuilder& frame, const SendRequest& request,
                                        const wire::Reth& reth) {
  constexpr auto kReth = wire::HeaderSet::of(wire::Header::kReth);
  if (frame.extensions() == wire::HeaderSet{}) return;
  if (frame.extensions() == kReth) return wire::write_reth(frame.extension(), reth);
  write_rare_extensions(frame.extensions(), frame.bth(), request, {reth.address, reth.rkey, reth.length});
}

void Requester::write_rare_extensions(wire::HeaderSet set, std::byte* bth, const SendRequest& request,
                                      const wire::Reth& reth) {
  wire::write_any_extensions(set, bth, headers_of(request, reth));
}

/// The values of all extension headers that packets of the request may have.
wire::Headers Requester::headers_of(const SendRequest& request, const wire::Reth& reth) const {
  const queue::SendQueue& queue = *send_.connection.send_queue;
  wire::Headers headers;
  headers.reth = reth;
  headers.immediate = request.immediate;
  headers.invalidate = request.invalidate;
  if (is_atomic(request.operation)) {
    const queue::AtomicOperands& operands = queue.operands(request);
    headers.atomic = {request.remote_address, request.rkey, operands.swap_or_add, operands.compare};
  }
  if (request.operation == SendOperation::kFlush) {
    const auto wanted = queue.operation<queue::FlushOperation>(request);
    headers.feth = {wanted.global_visibility, wanted.persistence, wanted.whole_region};
  }
  if (send_.connection.type == Type::kXrcSend)
    headers.xrc_srq = queue.attachment<queue::SrqNumber>(request).value;
  return headers;
}

[[gnu::always_inline]] inline bool Requester::build_read(const SendRequest& request, Turn& turn,
                                                         port::TxFrame& frame) {
  // A long READ is asked for in parts, each a READ of its own to the peer. Their borders are fixed when it
  // starts, so that a request for what is missing of a part lies inside the original one.
  const uint32_t packet = send_.window.current_packet(request);
  uint32_t end = std::min(request.packets, ((packet >> request.part_shift) + 1) << request.part_shift);
  if (send_.recovery.oldest_due()) [[unlikely]]
    end = std::min(end, packet + static_cast<uint32_t>(send_.recovery.due_end() - send_.window.next()));
  const uint64_t offset = uint64_t{packet} * send_.connection.mtu;
  const uint64_t length = std::min<uint64_t>(request.length, uint64_t{end} * send_.connection.mtu) - offset;
  UROCE_ASSERT(packet < end && length <= request.length);
  if (!may_store(request, turn, offset, length)) return false;
  ask(request, Operation::kReadRequest,
      {request.remote_address + offset, request.rkey, static_cast<uint32_t>(length)}, frame, turn.tx);
  note_sent(end - packet, turn);
  if (end == request.packets) send_.window.end_current(SendWindow::messages_of_read(request));
  send_.window.read_sent();
  return true;
}

/// Builds the packet of an atomic, a FLUSH, or another request whose packet has headers alone.
bool Requester::build_without_data(const SendRequest& request, Turn& turn, port::TxFrame& frame) {
  UROCE_ASSERT(needs_own_response(request.operation) && request.packets == 1);
  if (has_result(request.operation) && !may_store(request, turn, 0, request.length)) return false;
  ask(request, opcode_of(request.operation, true, true),
      {request.remote_address, request.rkey, request.length}, frame, turn.tx);
  note_sent(1, turn);
  send_.window.end_current(1);
  send_.window.read_sent();
  return true;
}

inline void Requester::note_sent(uint32_t psns, Turn& turn) {
  if (send_.window.sent(psns)) [[unlikely]] {
    turn.counters.add(Counter::kRetransmittedPackets);
    ++send_.connection.incidents.retransmitted;
  }
}

/// Writes the packet of a request that has no payload.
inline void Requester::ask(const SendRequest& request, Operation operation, const wire::Reth& reth,
                           port::TxFrame& frame, port::TxBatch& tx) {
  wire::PacketBth bth = bth_to_peer(send_.connection, operation, send_.window.next());
  bth.ack_request = true;
  const FrameBuilder making(frame, send_.connection, bth, 0);
  write_extensions(making, request, reth);
  making.finish(tx);
}

/// Finds payload.bytes bytes of the request's data, from `offset` on. False: they may not be read.
inline bool Requester::find_data(const SendRequest& request, Turn& turn, uint64_t offset, Payload& payload) {
  const mem::RegionEntry::Found found = SegmentCursor::resolve_at_once(
      send_.connection.send_queue->segments(request), offset, payload.bytes,
      {turn.regions, send_.connection.key_user(), mem::kLocalRead}, turn.keys.sources);
  payload.data = found.data;
  if (found.right) [[likely]]
    return true;
  if (!resolve(request, turn, offset, payload.bytes, mem::kLocalRead)) return false;
  if (turn.range.in_one_piece()) {
    payload.data = turn.range.data();
  } else {
    payload.pieces = &turn.range;
  }
  return true;
}

/// Whether the `length` bytes from `offset` on of the request's memory, where responses go, may be written.
inline bool Requester::may_store(const SendRequest& request, Turn& turn, uint64_t offset, uint64_t length) {
  return SegmentCursor::resolve_at_once(send_.connection.send_queue->segments(request), offset, length,
                                        {turn.regions, send_.connection.key_user(), mem::kLocalWrite},
                                        turn.keys.answered_into)
             .right ||
         resolve(request, turn, offset, length, mem::kLocalWrite);
}

/// Resolves `length` bytes of the request's memory, from `offset` on, into the turn's range. False: it may
/// not be used so, and fail_current() was called.
bool Requester::resolve(const SendRequest& request, Turn& turn, uint64_t offset, uint64_t length,
                        mem::Access needed) {
  if (cursor_number_ != send_.window.number()) {
    cursor_.restart();
    cursor_number_ = send_.window.number();
  }
  const LocalKeys keys{turn.regions, send_.connection.key_user(), needed};
  if (cursor_.resolve(send_.connection.send_queue->segments(request), offset, length, keys, turn.range))
    return true;
  return fail_current(turn, CompletionStatus::kLocalProtectionError);
}

/// A request that we cannot send fails when all before it are complete; until then it is tried again whenever
/// one completes. Always false.
bool Requester::fail_current(Turn& turn, CompletionStatus status) {
  if (!send_.window.current_is_head()) return false;
  if (status == CompletionStatus::kLocalProtectionError) turn.counters.add(Counter::kLocalProtectionError);
  fail_oldest_send(send_.connection, turn, status);
  return false;
}

}  // namespace uroce::qp
