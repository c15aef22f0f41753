// What an RC responder says to its peer.
//
// Decision: ACKs carry credits, unless receives are shared. Without a credit one message goes when all before
// it are answered, so a fast sender waits instead of being refused.
#include <algorithm>
#include <utility>

#include "base/process/probe.h"
#include "base/values/contract.h"
#include "qp/acknowledgement/credits.h"
#include "qp/connection/frame_run.h"
#include "qp/connection/frame_writer.h"
#include "qp/responder/rc_responder.h"
#include "qp/responder/xrc_target.h"

namespace uroce::qp {

using wire::Operation;

namespace {

/// By 1 for the first packet of a response and 2 for its last.
constexpr Operation kReadResponses[] = {Operation::kReadResponseMiddle, Operation::kReadResponseFirst,
                                        Operation::kReadResponseLast, Operation::kReadResponseOnly};

uint32_t syndrome_of(const wire::Aeth& aeth) { return static_cast<uint32_t>(aeth.kind) << 5 | aeth.value; }

/// The NAK on its way out: counted, and told to those that trace it.
[[gnu::cold]] wire::Aeth noted(const wire::Aeth& aeth, Connection& connection, Psn psn) {
  Incidents& incidents = connection.incidents;
  ++(aeth.kind == wire::AethKind::kRnrNak ? incidents.rnr_naks_sent : incidents.naks_sent);
  UROCE_PROBE3(nak_sent, connection.number.value, psn.value(), syndrome_of(aeth));
  return aeth;
}

}  // namespace

/// The MSN of an answer about `msn`. What the requester hears never goes backwards, also when a READ is
/// answered once more after newer requests.
inline uint32_t RcResponder::say_msn(Msn msn) {
  if (msn.after(last_msn_sent_)) last_msn_sent_ = msn;
  return last_msn_sent_.value();
}

/// An ACK: messages up to `msn` are complete, and credits() tells of receives for those that follow.
inline wire::Aeth RcResponder::acknowledge(Msn msn) { return wire::Aeth::ack(say_msn(msn), credits()); }

inline uint8_t RcResponder::credits() const {
  return tells_credits() ? credit_code(send_.connection.receives.waiting()) : wire::kNoCredits;
}

/// Builds the next packet of a READ response; false when the memory may not be read any more.
inline bool RcResponder::build_read_response(Response& read, port::TxFrame& frame, Turn& turn) {
  const uint64_t offset = uint64_t{read.next} * send_.connection.mtu;
  UROCE_ASSERT(read.pending() && offset <= read.bytes_end && read.bytes_end <= read.request.length);
  Payload payload{
      .bytes = static_cast<uint32_t>(std::min<uint64_t>(read.bytes_end - offset, send_.connection.mtu))};
  if (payload.bytes > 0 && !find_data(read.request, offset, payload, turn)) return false;
  const Operation operation =
      kReadResponses[unsigned{read.next == read.first} | unsigned{read.next + 1 == read.end} << 1];
  FrameBuilder making(frame, send_.connection,
                      bth_to_peer(send_.connection, operation, read.request.psn + read.next), payload.bytes);
  if (making.extensions().has(wire::Header::kAeth))
    wire::write_aeth(making.extension(), acknowledge(read.msn));
  if (!making.finish(payload, turn.tx)) [[unlikely]] {
    turn.counters.add(Counter::kMemoryGone);
    return false;
  }
  responses_.sent_one(read);
  return true;
}

/// The way of most READs: many of one packet each, of `bytes` bytes, one behind the other, whose frames
/// differ in PSN, AETH and payload only. Builds responses as long as there are such, and what they read is
/// found at once; how many. All else is left to the caller.
uint32_t RcResponder::build_response_run(uint32_t bytes, Turn& turn, uint32_t budget) {
  const Connection& connection = send_.connection;
  const wire::PacketBth bth = bth_to_peer(connection, Operation::kReadResponseOnly, expected_);
  const wire::OpcodeRow& row = wire::opcode_row(bth.opcode);
  const wire::FrameTemplate& path = connection.frame;
  const auto shape = FrameRun::Shape::of(path, row, bytes);
  if (path.kind() != wire::FrameTemplate::kind_of(bth, shape.frame_bytes - path.bytes(), -bytes & 3) ||
      path.icrc_before_psn() == 0)
    return 0;
  // What this turn placed into the same memory must be there before it is read.
  if (turn.placer.dirty()) turn.placer.commit();
  port::TxBatch& tx = turn.tx;
  const uint32_t most = std::min(budget, responses_.pending());
  const std::span<port::TxFrame> frames = most > 0 ? tx.next(most) : std::span<port::TxFrame>();
  FrameRun making(connection, shape, tx);
  const uint8_t credits_of_all = credits();
  mem::RememberedKey& key = turn.keys.read;
  const mem::RegionTable& regions = turn.regions;
  uint32_t count = 0;
  for (; count < frames.size(); ++count) {
    Response& response = *responses_.next();
    if (!response.is_short_read() || response.bytes_end != bytes) break;
    const OperationRequest& read = response.request;
    const mem::RegionEntry::Found found =
        key.resolve_at_once(regions, read.rkey, domain_for(connection, read.srq), read.address, bytes);
    if (!found.right) [[unlikely]]
      break;
    port::TxFrame& frame = frames[count];
    tx.come_to(frame);
    wire::write_aeth(making.begin(frame, false, read.psn),
                     wire::Aeth::ack(say_msn(response.msn), credits_of_all));
    if (!making.finish(frame, found.data)) [[unlikely]]
      break;
    responses_.sent_short(response);
  }
  if (count == 0) return 0;
  making.end();
  tx.commit(count);
  return count;
}

/// Finds payload.bytes bytes of what a READ asks for; false when they may not be read any more.
inline bool RcResponder::find_data(const OperationRequest& read, uint64_t offset, Payload& payload,
                                   Turn& turn) {
  const DomainId domain = domain_for(send_.connection, read.srq);
  const mem::RegionEntry::Found found =
      turn.keys.read.resolve_at_once(turn.regions, read.rkey, domain, read.address + offset, payload.bytes);
  payload.data = found.data;
  payload.pieces = &turn.range;
  if (!found.right && !resolve(read, offset, payload.bytes, turn)) [[unlikely]]
    return false;
  // What this turn placed into the same memory must be there before it is read.
  if (turn.placer.dirty()) turn.placer.commit();
  return true;
}

/// Resolves `bytes` bytes of what a READ asks for into the turn's range; false when they may not be read.
bool RcResponder::resolve(const OperationRequest& read, uint64_t offset, uint32_t bytes, Turn& turn) {
  turn.range.clear();
  return turn.range.add(turn.regions.resolve(read.rkey, key_user_for(send_.connection, read.srq),
                                             read.address + offset, bytes, mem::kRemoteRead));
}

/// Builds the response to a request that was performed when it came.
void RcResponder::build_outcome(Response& response, port::TxFrame& frame) {
  UROCE_ASSERT(response.request.kind != OperationRequest::Kind::kRead && response.request.packets == 1);
  const bool atomic = response.request.kind == OperationRequest::Kind::kAtomic;
  const Operation operation = atomic ? Operation::kAtomicAcknowledge : Operation::kReadResponseOnly;
  FrameBuilder making(frame, send_.connection, bth_to_peer(send_.connection, operation, response.request.psn),
                      0);
  wire::Headers headers;
  headers.aeth = acknowledge(response.msn);
  headers.atomic_original = response.value;
  wire::write_extensions(making.extensions(), making.bth(), headers);
  making.write_pad_and_icrc();
  responses_.sent_one(response);
}

/// Ends a READ whose memory may not be read any more. False: instead of the next response the peer gets a
/// NAK. True: nothing is answered. The peer had all of the READ once; it may have asked again before it saw
/// that, and the application have taken the memory back since. A peer that still wants it asks until its
/// retries are over.
bool RcResponder::stop_reading(Response& read, Turn& turn) {
  UROCE_ASSERT(read.pending());
  if (read.answered) {
    turn.counters.add(Counter::kDropResources);
    responses_.give_up(read);
    return true;
  }
  expected_ = read.request.psn + read.next;
  responses_.clear();
  nak_ = Nak::kRemoteAccess;
  send_.connection.raise(Event::kAccessError);
  send_.connection.broken = true;
  send_.connection.failure = Failure::kMemoryGone;
  return false;
}

Pumped RcResponder::pump(Turn& turn, uint32_t budget) {
  for (uint32_t frames = 0;;) {
    Response* const response = responses_.next();
    if (response == nullptr && nak_ == Nak::kNone) {
      const AckTime ack = send_.connection.acks.due(turn.now, turn.delivery);
      if (ack != AckTime::kNow) return {.frames = frames, .more = ack != AckTime::kNotAtAll, .ack = ack};
    }
    const bool is_data = response != nullptr && response->request.kind == OperationRequest::Kind::kRead;
    if (is_data && send_.connection.holds_response(turn.now)) [[unlikely]]
      return {.frames = frames};
    if (is_data && response->is_short_read() && !send_.connection.congestion.limits_responses()) {
      if (const uint32_t built = build_response_run(response->bytes_end, turn, budget - frames); built > 0) {
        frames += built;
        continue;
      }
    }
    port::TxFrame* const frame = frames < budget ? turn.tx.next() : nullptr;
    if (frame == nullptr) return {.frames = frames, .more = true};
    if (response == nullptr) {
      build_answer(*frame, turn);
    } else if (!is_data) {
      build_outcome(*response, *frame);
    } else if (!build_read_response(*response, *frame, turn)) {
      if (stop_reading(*response, turn)) continue;
      build_answer(*frame, turn);
    }
    if (is_data) send_.connection.note_response_left(frame->length);
    turn.tx.commit();
    ++frames;
  }
}

void RcResponder::build_answer(port::TxFrame& frame, Turn& turn) {
  const Nak nak = std::exchange(nak_, Nak::kNone);
  const bool ack = nak == Nak::kNone;
  UROCE_ASSERT(!ack || send_.connection.acks.owes());
  send_.connection.acks.settled();
  const Psn psn = ack ? ack_psn_ : expected_;
  UROCE_ASSERT(!ack || (ack_psn_.before(expected_) && responses_.permits_ack(psn)));
  FrameBuilder making(frame, send_.connection, bth_to_peer(send_.connection, Operation::kAcknowledge, psn),
                      0);
  wire::write_aeth(making.extension(), ack ? acknowledge(msn_) : refusal(nak, turn));
  making.write_pad_and_icrc();
}

wire::Aeth RcResponder::refusal(Nak nak, Turn& turn) {
  const uint32_t msn = say_msn(msn_);
  switch (nak) {
    case Nak::kNone:
      break;
    case Nak::kSequence:
      turn.counters.add(Counter::kSequenceNakSent);
      return noted(wire::Aeth::nak(wire::NakCode::kSequenceError, msn), send_.connection, expected_);
    case Nak::kRnr:
      turn.counters.add(Counter::kRnrNakSent);
      return noted(wire::Aeth::rnr(send_.connection.attributes.min_rnr_timer, msn), send_.connection,
                   expected_);
    case Nak::kInvalidRequest:
      turn.counters.add(Counter::kInvalidRequestNakSent);
      return noted(wire::Aeth::nak(wire::NakCode::kInvalidRequest, msn), send_.connection, expected_);
    case Nak::kRemoteAccess:
      turn.counters.add(Counter::kAccessNakSent);
      return noted(wire::Aeth::nak(wire::NakCode::kRemoteAccess, msn), send_.connection, expected_);
    case Nak::kOperational:
      turn.counters.add(Counter::kOperationalNakSent);
      return noted(wire::Aeth::nak(wire::NakCode::kRemoteOperational, msn), send_.connection, expected_);
  }
  return acknowledge(msn_);
}

}  // namespace uroce::qp
