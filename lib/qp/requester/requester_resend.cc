// Packets that the requester sends once more by themselves: the oldest one, which may be lost, and the newest
// one, to ask for an ACK.
//
// Decision: an unsignaled message requests no ACK if another one is already posted behind it. ACKs are what
// streams of small messages wait for. Cost: a request that then needs such an ACK has the last packet sent
// again, to request it.
#include "base/values/contract.h"
#include "qp/requester/requester.h"

namespace uroce::qp {

/// Sends the oldest packet once more, before all frames of this turn and with nothing behind it. What was
/// being sent goes on afterwards.
Pumped Requester::resend_oldest(Turn& turn, uint32_t budget) {
  port::TxFrame* const frame = budget > 0 ? turn.tx.next() : nullptr;
  if (frame == nullptr) return {.more = true};
  const SendWindow::Place place = send_.window.visit_oldest();
  const bool unasked = unasked_;
  asks_each_ = true;
  if (!build_any(send_.window.current(), turn, *frame)) return {};
  send_.connection.note_request_left(frame->length);
  const size_t overtaken = turn.tx.size();
  turn.tx.commit_first();
  unasked_ = unasked;
  const Psn end = send_.window.next();
  send_.window.return_to(place);
  send_.recovery.oldest_sent(turn.now, end, overtaken);
  return {.frames = 1};
}

/// The current request, which was to bring an ACK for those before it, does not go. It may be waiting for
/// that very ACK, as a local operation or one that has failed does: then the last packet goes once more and
/// asks itself. True: it will. What a READ or the window holds up goes on by answers that have been asked
/// for.
bool Requester::ask_again(uint32_t window) {
  UROCE_ASSERT(send_.connection.reliable);
  const uint32_t unanswered = send_.window.unanswered();
  const bool stuck = unanswered > 0 && unanswered < window && send_.window.reads() == 0;
  if (!stuck) return false;
  send_.window.step_back();
  unasked_ = false;
  return shall_ask_ = true;
}

}  // namespace uroce::qp
