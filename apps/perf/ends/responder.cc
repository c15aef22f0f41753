#include "apps/perf/ends/responder.h"

#include <algorithm>

namespace uroce::perf {
namespace {

/// Longer than the initiator waits for its answers: what it sent last is still on its way.
constexpr std::chrono::milliseconds kQuiet{200};

}  // namespace

Responder::Responder(Endpoint& endpoint, const Round& round)
    : endpoint_(endpoint),
      round_(round),
      memory_(endpoint.source(), endpoint.target(), round, Role::kResponder),
      arrivals_(round.layout(), round.operation == Operation::kWrite),
      quiet_(kQuiet) {
  if (round_.operation != Operation::kSend && round_.reliable()) return;
  // What may be lost lies in the order of the receives, one in each slot: a late message meets no other.
  const uint64_t slots = round_.layout().slots;
  const uint64_t wanted = round_.reliable() || slots == 1
                              ? endpoint_.receive_depth()
                              : std::min<uint64_t>(slots, endpoint_.receive_depth());
  while (receives_posted_ < wanted) {
    const auto count = static_cast<uint32_t>(std::min<uint64_t>(wanted - receives_posted_, kBatchMax));
    endpoint_.post_receives(receives_posted_, count);
    receives_posted_ += count;
  }
}

void Responder::begin(const Phase& phase) {
  phase_ = phase;
  memory_.prepare(phase);
  arrivals_.begin(phase.first);
  quiet_.broken();
}

void Responder::pong() {
  if (round_.operation == Operation::kWrite) memory_.mark_source(pongs_);
  endpoint_.post(round_.operation, pongs_, 1);
  ++pongs_;
}

void Responder::step() {
  const Completions found = endpoint_.poll();
  sent_ += found.sent;
  if (round_.reliable()) {
    answer_reliable(found);
  } else {
    answer_unreliable(found);
  }
}

void Responder::answer_reliable(const Completions& found) {
  received_ += found.received;
  if (round_.ping_pong()) {
    // The ACK of the pong before may be behind the ping: it is waited for only where the queue is full,
    // whatever the initiator does.
    const bool arrived = round_.operation == Operation::kWrite ? memory_.arrived(pongs_) : received_ > pongs_;
    if (arrived && pongs_ - sent_ < endpoint_.send_depth()) pong();
  }
  receives_owed_ += found.received;
  while (receives_owed_ != 0 && receives_owed_ >= round_.receive_list) {
    const auto count = static_cast<uint32_t>(round_.receive_list != 0 ? round_.receive_list : receives_owed_);
    endpoint_.post_receives(receives_posted_, count);
    receives_posted_ += count;
    receives_owed_ -= count;
  }
}

void Responder::answer_unreliable(const Completions& found) {
  if (found.received != 0) {
    endpoint_.post_receives(receives_posted_, static_cast<uint32_t>(found.received));
    receives_posted_ += found.received;
    quiet_.broken();
  }
  for (uint64_t i = 0; i < found.received; ++i) {
    const uint64_t number = arrivals_.note(found.arrivals[i].number);
    // An answer that finds no room is as good as lost.
    if (!round_.ping_pong() || posted_ - sent_ == endpoint_.send_depth()) continue;
    endpoint_.post(round_.operation, number, 1);
    ++posted_;
  }
  if (!round_.ping_pong()) tell_credit(found.received == 0);
}

/// Once for each quarter of what may be under way, and when nothing more comes.
void Responder::tell_credit(bool idle) {
  constexpr uint32_t kIdleTurns = 64;
  idle_turns_ = idle ? idle_turns_ + 1 : 0;
  const uint64_t news = arrivals_.next() - told_;
  const uint64_t quarter = std::max<uint64_t>(1, round_.layout().slots / 4);
  if (news == 0 || (news < quarter && idle_turns_ < kIdleTurns)) return;
  if (posted_ - sent_ == endpoint_.send_depth()) return;
  told_ = arrivals_.next();
  endpoint_.post_number(told_);
  ++posted_;
}

bool Responder::done(uint64_t end) {
  if (round_.reliable()) {
    if (round_.ping_pong()) return pongs_ == end && sent_ == end;
    return round_.operation != Operation::kSend || received_ == end;
  }
  if (sent_ != posted_) return false;
  if (arrivals_.count() == end - phase_.first) return true;
  return quiet_.lasts();
}

Outcome Responder::verify(uint64_t end) {
  if (round_.reliable())
    return {.bytes_verified = memory_.verify(phase_, end), .received = end - phase_.first};
  return {.bytes_verified = memory_.verify_arrived(phase_, end, arrivals_), .received = arrivals_.count()};
}

}  // namespace uroce::perf
