// What an RC responder says to its peer.
#include <algorithm>

#include "qp/credits.h"
#include "qp/frame_writer.h"
#include "qp/rc_responder.h"
#include "qp/xrc_target.h"

namespace uroce::qp {

using wire::Operation;

Pumped RcResponder::pump(Turn& turn, uint32_t budget) {
  Pumped pumped;
  for (;;) {
    Response* response = responses_.next();
    if (response == nullptr && answer_ == Answer::kNone) return pumped;
    port::TxFrame* frame = pumped.frames < budget ? turn.tx.next() : nullptr;
    if (frame == nullptr) {
      pumped.more = true;
      return pumped;
    }
    if (response == nullptr) {
      build_answer(*frame, turn);
    } else if (response->kind == Response::Kind::kRead) {
      if (!build_read_response(*response, *frame, turn)) continue;
    } else {
      build_outcome(*response, *frame);
    }
    turn.tx.commit();
    ++pumped.frames;
  }
}

/// The next packet of a READ response; false when the memory may not be read any more.
bool RcResponder::build_read_response(Response& read, port::TxFrame& frame, Turn& turn) {
  const ResponseRange& due = read.due;
  const uint64_t offset = uint64_t{read.sent} * connection_.mtu;
  const bool first = read.sent == 0;
  const bool last = read.sent + 1 == due.packets;
  const Payload payload{
      .bytes = static_cast<uint32_t>(std::min<uint64_t>(due.length - offset, connection_.mtu)),
      .range = &memory_.range};
  memory_.range.clear();
  if (payload.bytes > 0) {
    const mem::Binding binding = turn.regions.resolve(due.rkey, key_user_for(connection_, due.srq),
                                                      due.address + offset, payload.bytes, mem::kRemoteRead);
    if (!binding.ok()) return stop_reading(read);
    memory_.range.add(binding);
    // What this turn placed into the same memory must be there before it is read.
    if (turn.placer.dirty()) turn.placer.commit();
  }
  const Operation operation = last ? (first ? Operation::kReadResponseOnly : Operation::kReadResponseLast)
                                   : (first ? Operation::kReadResponseFirst : Operation::kReadResponseMiddle);
  wire::Headers headers = headers_to_peer(connection_, operation, due.psn + read.sent);
  headers.aeth = acknowledge(read.msn);
  if (!write_frame(frame, connection_, headers, payload)) [[unlikely]] {
    turn.counters.add(Counter::kMemoryGone);
    return stop_reading(read);
  }
  responses_.sent_one(read);
  return true;
}

/// Of what was performed when it came.
void RcResponder::build_outcome(Response& response, port::TxFrame& frame) {
  const bool atomic = response.kind == Response::Kind::kAtomic;
  const Operation operation = atomic ? Operation::kAtomicAcknowledge : Operation::kReadResponseOnly;
  wire::Headers headers = headers_to_peer(connection_, operation, response.due.psn);
  headers.aeth = acknowledge(response.msn);
  headers.atomic_original = response.value;
  write_frame(frame, connection_, headers);
  responses_.sent_one(response);
}

/// What the requester hears never goes backwards, also when a READ is answered once more after newer
/// requests.
uint32_t RcResponder::say_msn(uint32_t msn) {
  if (Psn(msn).after(Psn(said_msn_))) said_msn_ = msn;  // both count modulo 2^24
  return said_msn_;
}

/// Messages up to `msn` are complete, and so many receives are there for those that follow.
wire::Aeth RcResponder::acknowledge(uint32_t msn) {
  // What is in a shared queue is promised to nobody.
  const bool told = connection_.options.credits && !connection_.receives.are_shared();
  const uint8_t credits = told ? credit_code(connection_.receives.waiting()) : wire::kNoCredits;
  return wire::Aeth::ack(say_msn(msn), credits);
}

/// Always false: instead of the next response the peer gets a NAK.
bool RcResponder::stop_reading(const Response& read) {
  expected_ = read.due.psn + read.sent;
  responses_.clear();
  answer_ = Answer::kRemoteAccess;
  connection_.raise(Event::kAccessError);
  connection_.broken = true;
  return false;
}

void RcResponder::build_answer(port::TxFrame& frame, Turn& turn) {
  wire::Headers headers = headers_to_peer(connection_, Operation::kAcknowledge, expected_);
  const uint32_t msn = say_msn(msn_);
  switch (answer_) {
    case Answer::kNone:
    case Answer::kAck:
      headers.bth.psn = expected_ - 1u;
      headers.aeth = acknowledge(msn_);
      break;
    case Answer::kSequenceNak:
      turn.counters.add(Counter::kSequenceNakSent);
      headers.aeth = wire::Aeth::nak(wire::NakCode::kSequenceError, msn);
      break;
    case Answer::kRnrNak:
      turn.counters.add(Counter::kRnrNakSent);
      headers.aeth = wire::Aeth::rnr(connection_.attributes.min_rnr_timer, msn);
      break;
    case Answer::kInvalidRequest:
      turn.counters.add(Counter::kInvalidRequestNakSent);
      headers.aeth = wire::Aeth::nak(wire::NakCode::kInvalidRequest, msn);
      break;
    case Answer::kRemoteAccess:
      turn.counters.add(Counter::kAccessNakSent);
      headers.aeth = wire::Aeth::nak(wire::NakCode::kRemoteAccess, msn);
      break;
    case Answer::kOperational:
      turn.counters.add(Counter::kOperationalNakSent);
      headers.aeth = wire::Aeth::nak(wire::NakCode::kRemoteOperational, msn);
      break;
  }
  answer_ = Answer::kNone;
  write_frame(frame, connection_, headers);
}

}  // namespace uroce::qp
