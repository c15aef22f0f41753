#include "apps/perf/ends/initiator.h"

#include <fmt/format.h>

#include <algorithm>

#include "apps/perf/measurement/measurement.h"
#include "client/failure.h"

namespace uroce::perf {
namespace {

using Clock = std::chrono::steady_clock;

/// Silence after which a message of an unreliable service, or what would have told of it, counts as lost.
constexpr std::chrono::milliseconds kLost{100};

constexpr uint64_t kTurnsBetweenLooks = 16;  // at the clock

std::string answer_of(const Round& round) {
  return fmt::format("the peer for a {} of {}", name_of(round.operation), size_text(round.size));
}

uint64_t nanoseconds(Clock::duration time) { return static_cast<uint64_t>(time.count()); }

/// Tells when one of equal parts of a phase is over, by messages or by time, as the phase ends.
class Slices {
 public:
  Slices(const Stop& stop, Clock::time_point start) : stop_(stop), start_(start) { aim(); }

  bool over(uint64_t messages, Clock::time_point now) {
    if (stop_.messages ? messages < next_messages_ : now < next_time_) return false;
    ++number_;
    aim();
    return true;
  }

 private:
  static constexpr uint64_t kSlices = 20;
  void aim() {
    if (stop_.messages) next_messages_ = (*stop_.messages * (number_ + 1) + kSlices - 1) / kSlices;
    next_time_ = start_ + stop_.time * static_cast<int64_t>(number_ + 1) / static_cast<int64_t>(kSlices);
  }

  Stop stop_;
  Clock::time_point start_;
  uint64_t number_ = 0;
  uint64_t next_messages_ = 0;
  Clock::time_point next_time_;
};

/// Messages a second in each part of a phase.
class RateSamples {
 public:
  RateSamples(const Stop& stop, Clock::time_point start) : slices_(stop, start), since_(start) {}

  void look(uint64_t messages, Clock::time_point now) {
    if (!slices_.over(messages, now)) return;
    const double seconds = std::chrono::duration<double>(now - since_).count();
    if (seconds > 0) rates_.push_back(static_cast<double>(messages - before_) / seconds);
    before_ = messages;
    since_ = now;
  }
  [[nodiscard]] const std::vector<double>& rates() const { return rates_; }

 private:
  Slices slices_;
  Clock::time_point since_;
  uint64_t before_ = 0;
  std::vector<double> rates_;
};

}  // namespace

Initiator::Initiator(Endpoint& endpoint, Peer& peer, const Round& round)
    : endpoint_(endpoint),
      peer_(peer),
      round_(round),
      memory_(endpoint.source(), endpoint.target(), round, Role::kInitiator),
      arrivals_(round.layout(), round.operation == Operation::kWrite) {
  if (!round_.reliable()) replenish(endpoint_.receive_depth());
}

void Initiator::begin(uint64_t seed) {
  phase_ = {.seed = seed, .first = posted_};
  memory_.prepare(phase_);
  arrivals_.begin(posted_);
  peer_.begin(phase_);
}

void Initiator::replenish(uint64_t received) {
  while (received != 0) {
    const auto count = static_cast<uint32_t>(std::min<uint64_t>(received, kBatchMax));
    endpoint_.post_receives(receives_posted_, count);
    receives_posted_ += count;
    received -= count;
  }
}

Completions Initiator::poll() {
  const Completions found = endpoint_.poll();
  completed_ += found.sent;
  received_ += found.received;
  if (round_.reliable()) return found;
  replenish(found.received);
  for (uint64_t i = 0; i < found.received; ++i) {
    const auto [low_bits, empty] = found.arrivals[i];
    if (!empty) {
      arrivals_.note(low_bits);
    } else if (const uint64_t told = full_number(settled_, low_bits); told <= posted_) {
      settled_ = std::max(settled_, told);
    }
  }
  return found;
}

void Initiator::post_batches(uint64_t batch, uint64_t window, uint64_t end) {
  while (posted_ < end && posted_ - completed_ + batch <= round_.depth &&
         posted_ - settled_ + batch <= window) {
    const auto count = static_cast<uint32_t>(std::min(batch, end - posted_));
    endpoint_.post(round_.operation, posted_, count);
    posted_ += count;
  }
}

/// A message of a reliable service settles when it completes. Of an unreliable one no more are under way than
/// the other end has receives for: it tells what it has seen, and silence means that what is under way, or
/// the word of it, is lost.
Stretch Initiator::stream(const Stop& stop) {
  const bool reliable = round_.reliable();
  const uint64_t window = reliable ? round_.depth : std::min(round_.depth, round_.layout().slots);
  // Quarters: the device always has work while the completion of a quarter is on its way.
  const uint64_t batch = std::clamp<uint64_t>(window / 4, 1, kBatchMax);
  uint64_t end = stop.messages ? phase_.first + *stop.messages : UINT64_MAX;
  settled_ = posted_;
  client::Patience patience(answer_of(round_));
  client::Silence silence(kLost);
  const CpuMeter cpu;
  const auto start = Clock::now();
  RateSamples rates(stop, start);
  auto progress = start;
  for (uint64_t turn = 0; posted_ < end || completed_ < posted_ || settled_ < posted_; ++turn) {
    post_batches(batch, window, end);
    const uint64_t settled = settled_;
    const Completions found = poll();
    peer_.turn();
    if (found.sent != 0) patience.progressed();
    patience.waited();
    if (reliable) {
      settled_ = completed_;
    } else if (settled_ != settled) {
      progress = Clock::now();
      silence.broken();
    } else if (silence.lasts()) {
      settled_ = posted_;
    }
    if (turn % kTurnsBetweenLooks != 0 || posted_ >= end) continue;
    const auto now = Clock::now();
    rates.look(settled_ - phase_.first, now);
    if (!stop.messages && now - start >= stop.time) end = posted_;
  }
  if (reliable) progress = Clock::now();
  return {.messages = posted_ - phase_.first,
          .seconds = std::chrono::duration<double>(progress - start).count(),
          .rate_samples = rates.rates(),
          .cpu = cpu.used()};
}

bool Initiator::ping_unreliably() {
  const uint64_t message = posted_++;
  endpoint_.post(round_.operation, message, 1);
  client::Silence silence(kLost);
  while (arrivals_.next() <= message) {
    poll();
    peer_.turn();
    if (!silence.lasts()) continue;
    client::throw_if_interrupted();
    return false;
  }
  return true;
}

bool Initiator::ping_once(client::Patience& patience) {
  if (!round_.reliable()) return ping_unreliably();
  const uint64_t message = posted_++;
  const bool write = round_.operation == Operation::kWrite;
  const bool send = round_.operation == Operation::kSend;
  if (write) memory_.mark_source(message);
  if (send) endpoint_.post_receives(message, 1);
  endpoint_.post(round_.operation, message, 1);
  const auto answered = [&] {
    return write ? memory_.arrived(message) : send ? received_ > message : completed_ > message;
  };
  while (!answered()) {
    poll();
    peer_.turn();
    patience.waited();
  }
  return true;
}

Stretch Initiator::ping(const Stop& stop, RoundTrips& samples) {
  // Of every so many pings one is not timed until its pong: to read the clock then would lengthen the
  // interval.
  constexpr uint64_t kPingsPerInterval = 8;
  const uint64_t end_at_most = stop.messages ? phase_.first + *stop.messages : UINT64_MAX;
  client::Patience patience(answer_of(round_));
  const CpuMeter cpu;
  const auto start = Clock::now();
  Slices slices(stop, start);
  client::Histogram part;
  auto now = start;
  while (posted_ < end_at_most && (stop.messages || now - start < stop.time)) {
    const auto began = now;
    const bool for_interval = posted_ % kPingsPerInterval == 0;
    const bool answered = ping_once(patience);
    if (answered && !for_interval) part.record(nanoseconds(Clock::now() - began));
    // The pong may overtake the completion of its ping.
    while (completed_ < posted_) {
      poll();
      peer_.turn();
      patience.waited();
    }
    patience.progressed();
    now = Clock::now();
    if (answered) ++samples.answered;
    if (answered && for_interval) samples.intervals.record(nanoseconds(now - began));
    if (slices.over(posted_ - phase_.first, now) && part.count() != 0) {
      samples.p50_us.push_back(microseconds(part.percentile(50)));
      samples.p99_us.push_back(microseconds(part.percentile(99)));
      samples.all.add(part);
      part.clear();
      now = Clock::now();
    }
  }
  samples.all.add(part);
  return {.messages = posted_ - phase_.first,
          .seconds = std::chrono::duration<double>(Clock::now() - start).count(),
          .cpu = cpu.used()};
}

uint64_t Initiator::finish() {
  const Outcome there = peer_.finish(posted_);
  received_there_ = there.received;
  peer_cpu_s_ = there.cpu_s;
  const uint64_t here = round_.reliable() ? memory_.verify(phase_, posted_)
                                          : memory_.verify_arrived(phase_, posted_, arrivals_);
  return there.bytes_verified + here;
}

}  // namespace uroce::perf
