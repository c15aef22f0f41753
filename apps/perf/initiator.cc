#include "apps/perf/initiator.h"

#include <fmt/format.h>

#include <algorithm>

#include "apps/perf/patience.h"

namespace uroce::perf {
namespace {

using Clock = std::chrono::steady_clock;

std::string answer_of(const Round& round) {
  return fmt::format("the peer for a {} of {}", name_of(round.operation), size_text(round.size));
}

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

Initiator::Initiator(Endpoint& endpoint, Peer& peer, const Round& round)
    : endpoint_(endpoint),
      peer_(peer),
      round_(round),
      memory_(endpoint.source(), endpoint.target(), round, Role::kInitiator) {}

void Initiator::begin(uint64_t seed) {
  phase_ = {.seed = seed, .first = posted_};
  memory_.prepare(phase_);
  peer_.begin(phase_);
}

Stretch Initiator::stream(const Stop& stop) {
  // Quarters: the device always has work while the completion of a quarter is on its way.
  const uint64_t batch = std::clamp<uint64_t>(round_.depth / 4, 1, Endpoint::kBatchMax);
  const uint64_t end_at_most = stop.messages ? phase_.first + *stop.messages : UINT64_MAX;
  Patience patience(answer_of(round_));
  const auto start = Clock::now();
  bool posting = true;
  for (uint64_t turn = 0; posting || completed_ < posted_; ++turn) {
    while (posting && posted_ - completed_ + batch <= round_.depth && posted_ < end_at_most) {
      const auto count = static_cast<uint32_t>(std::min(batch, end_at_most - posted_));
      endpoint_.post(round_.operation, posted_, count);
      posted_ += count;
    }
    const Completions found = endpoint_.poll();
    completed_ += found.sent;
    peer_.turn();
    if (found.sent != 0) patience.progressed();
    patience.waited();
    if (posted_ >= end_at_most) posting = false;
    if (!stop.messages && turn % 16 == 0 && Clock::now() - start >= stop.time) posting = false;
  }
  return {.messages = posted_ - phase_.first, .seconds = seconds_since(start)};
}

void Initiator::ping_once() {
  const uint64_t message = posted_++;
  const bool write = round_.operation == Operation::kWrite;
  const bool send = round_.operation == Operation::kSend;
  if (write) memory_.mark_source(message);
  if (send) endpoint_.post_receives(message, 1);
  endpoint_.post(round_.operation, message, 1);
  Patience patience(answer_of(round_));
  const auto answered = [&] {
    return write ? memory_.arrived(message) : send ? received_ > message : completed_ > message;
  };
  while (!answered()) {
    const Completions found = endpoint_.poll();
    completed_ += found.sent;
    received_ += found.received;
    peer_.turn();
    patience.waited();
  }
}

Stretch Initiator::ping(const Stop& stop, Histogram& samples) {
  const uint64_t end_at_most = stop.messages ? phase_.first + *stop.messages : UINT64_MAX;
  const auto start = Clock::now();
  auto now = start;
  while (posted_ < end_at_most && (stop.messages || now - start < stop.time)) {
    const auto sent_at = Clock::now();
    ping_once();
    now = Clock::now();
    samples.record(static_cast<uint64_t>((now - sent_at).count()));
    // The pong may overtake the completion of its ping; waiting for it here keeps it out of the next sample.
    Patience patience(answer_of(round_));
    while (completed_ < posted_) {
      completed_ += endpoint_.poll().sent;
      peer_.turn();
      patience.waited();
    }
  }
  return {.messages = posted_ - phase_.first, .seconds = seconds_since(start)};
}

uint64_t Initiator::finish() {
  const uint64_t there = peer_.finish(posted_);
  return there + memory_.verify(phase_, posted_);
}

}  // namespace uroce::perf
