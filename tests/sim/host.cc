#include "tests/sim/host.h"

#include <algorithm>
#include <array>

#include "wire/packet.h"

namespace uroce::sim {

namespace {

constexpr size_t kBurst = 32;
constexpr uint32_t kPumpBudget = 16;

}  // namespace

Host::Host(const Instant& now, port::Port& port, copy::Kind kind)
    : now_(now),
      queue_(port.queue(0)),
      regions_({.entries_max = 1u << 10}),
      placer_(kind),
      tx_(queue_),
      turn_{.now = now,
            .tx = tx_,
            .placer = placer_,
            .completions = completions_,
            .regions = regions_,
            .counters = counters_} {}

qp::QueuePair& Host::create_queue_pair(const qp::QueuePair::Options& options) {
  auto& slot = queue_pairs_[options.number.value];
  slot = std::make_unique<qp::QueuePair>(options);
  return *slot;
}

int Host::modify(qp::QueuePair& queue_pair, const qp::Attributes& attributes, uint32_t mask) {
  turn_.now = now_;
  const int error = queue_pair.modify(attributes, mask, turn_);
  publish();
  return error;
}

bool Host::turn() {
  turn_.now = now_;
  bool more = receive_burst();
  for (auto& [number, queue_pair] : queue_pairs_) {
    if (queue_pair->deadline() <= now_) queue_pair->expire(turn_);
    more |= queue_pair->pump(turn_, kPumpBudget);
  }
  publish();
  more |= flush();
  return more;
}

bool Host::receive_burst() {
  std::array<port::RxFrame, kBurst> frames;
  const uint16_t count = queue_.receive(frames);
  for (uint16_t i = 0; i < count; ++i) dispatch(frames[i]);
  // The placed bytes come out of these frames.
  publish();
  queue_.release({frames.data(), count});
  return count == kBurst;
}

void Host::dispatch(const port::RxFrame& frame) {
  wire::Packet packet;
  const wire::ParseOutcome outcome = wire::parse_frame({frame.data, frame.length}, packet);
  if (outcome.result != wire::ParseResult::kRoce) return counters_.add(outcome.reason);
  if (!wire::icrc_matches(packet)) return counters_.add(Counter::kDropIcrc);
  const auto found = queue_pairs_.find(packet.headers.bth.destination.value);
  if (found == queue_pairs_.end()) return counters_.add(Counter::kDropUnknownQp);
  found->second->receive(packet, turn_);
}

void Host::publish() {
  placer_.commit();
  completions_.publish_all();
}

/// True when frames are left that the port did not take.
bool Host::flush() {
  const std::span<port::TxFrame> frames = tx_.frames();
  tx_.consume(queue_.transmit(frames));
  return !tx_.frames().empty();
}

Instant Host::deadline() const {
  Instant earliest = kNever;
  for (const auto& [number, queue_pair] : queue_pairs_) {
    earliest = std::min(earliest, queue_pair->deadline());
  }
  return earliest;
}

}  // namespace uroce::sim
