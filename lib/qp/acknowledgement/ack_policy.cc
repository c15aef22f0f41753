#include "qp/acknowledgement/ack_policy.h"

#include "base/values/contract.h"

namespace uroce::qp {

void AckPolicy::delay(const Packet& packet, Delivery delivery, const Circumstances& circumstances) {
  const bool at_any_time =
      delivery == Delivery::kBackground || (!packet.completes && circumstances.data_unacknowledged);
  if (at_any_time) deadline_ = circumstances.now + kDelayMax;
  credit_wanted_ = packet.completes && circumstances.credit_wanted;
  state_ = std::max(state_, at_any_time ? State::kDeadline : State::kDelivered);
}

AckTime AckPolicy::due_of_delayed(Instant now, Delivery delivery) {
  switch (state_) {
    case State::kDelivered:
      state_ = State::kNextTurn;
      // Otherwise that turn ended before it was asked.
      if (delivery != Delivery::kNone) return AckTime::kWithData;
      break;
    case State::kNextTurn:
      state_ = State::kBehindData;
      return AckTime::kWithData;
    case State::kDeadline:
      if (now < deadline_) return AckTime::kAtDeadline;
      writes_.timed_out();
      break;
    case State::kNone:
    case State::kBehindData:
    case State::kNow:
      break;
  }
  state_ = State::kNow;
  return AckTime::kNow;
}

AckTime AckPolicy::data_built(bool any) {
  UROCE_ASSERT(owes() && state_ != State::kNow);
  const bool leaves = state_ == State::kBehindData || (any && state_ == State::kDeadline);
  if (!leaves) return state_ == State::kDeadline ? AckTime::kAtDeadline : AckTime::kWithData;
  state_ = State::kNow;
  return any && !credit_wanted_ ? AckTime::kAfterData : AckTime::kNow;
}

void AckPolicy::moved(Duration by) {
  completions_.forget_call();
  writes_.forget_call();
  own_acknowledged_in_ = 0;
  shift(by, deadline_);
}

}  // namespace uroce::qp
