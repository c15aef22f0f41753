#include "capture/tap.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace uroce::capture {
namespace {

constexpr auto kFirstReason = static_cast<size_t>(Counter::kDropTruncated);
constexpr auto kLastReason = static_cast<size_t>(Counter::kDropInvalidRequest);
/// Others stand among them.
constexpr auto kIsReason = [] {
  std::array<bool, kCounterCount> is{};
  constexpr std::array<std::string_view, kCounterCount> kLabels = {
#define X(name, label, ...) label,
      UROCE_COUNTERS(X)
#undef X
  };
  for (size_t i = kFirstReason; i <= kLastReason; ++i) is[i] = kLabels[i].starts_with("drop_");
  return is;
}();
/// What ends a request with an error, besides NAKs.
constexpr std::array kErrors{Counter::kRetryExceeded, Counter::kCqOverrun, Counter::kLocalProtectionError,
                             Counter::kMemoryGone};

/// No RNR NAK: that is flow control.
bool is_nak(const wire::Packet& packet) {
  return packet.row->headers.has(wire::Header::kAeth) && packet.headers.aeth.kind == wire::AethKind::kNak;
}

std::bitset<256> opcodes_of(const Order& order) {
  return order.opcode.empty() ? std::bitset<256>().set() : opcodes_named(order.opcode);
}

}  // namespace

Tap::Tap(const Options& options, const RingWriter& ring)
    : options_(options), opcodes_(opcodes_of(options.order)), ring_(ring), source_(&options.port) {
  for (size_t i = 0; i < kCounterCount; ++i) counted_[i] = options_.counters.read(static_cast<Counter>(i));
}

uint16_t Tap::receive(std::span<port::RxFrame> frames) {
  settle();
  const uint16_t came = source_->receive(frames);
  if (came == 0) return came;
  const int64_t now_ns = options_.clock_ns();
  naks_ = 0;
  for (const port::RxFrame& frame : frames.first(came)) take_received(frame, now_ns);
  publish(naks_);
  return came;
}

uint16_t Tap::transmit(std::span<const port::TxFrame> frames) {
  settle();
  if (options_.order.direction == Direction::kIn) return options_.port.transmit(frames);
  const int64_t now_ns = options_.clock_ns();
  // Before they go, for then they are the port's; in pieces, for what it does not take is not captured.
  struct Behind {
    uint64_t position, naks;
  };
  std::array<Behind, kBurstMax + 1> behind;
  const std::span<const port::TxFrame> some = frames.first(std::min(frames.size(), kBurstMax));
  naks_ = 0;
  behind[0] = {ring_.position(), 0};
  for (size_t i = 0; i < some.size(); ++i) {
    take_sent(some[i], now_ns);
    behind[i + 1] = {ring_.position(), naks_};
  }
  const uint16_t sent = options_.port.transmit(some);
  ring_.back_to(behind[sent].position);
  publish(behind[sent].naks);
  return sent;
}

port::RxFrame Tap::loop(const port::TxFrame& frame) {
  naks_ = 0;
  if (options_.order.direction != Direction::kIn) {
    take_sent(frame, options_.clock_ns());
    publish(naks_);
  }
  return options_.port.loop(frame);
}

/// The frame that brought an error can be read before the error counts; both at once and not with the next
/// turn, before which a program may end.
void Tap::publish(uint64_t errors) {
  ring_.publish();
  if (errors != 0) ring_.count_errors(errors);
}

/// The packet that was parsed, or what is none.
bool Tap::is_meant(bool roce) const {
  const Order& order = options_.order;
  if (!roce) return !order.scope.queue_pair && order.opcode.empty();
  return opcodes_[packet_.row->opcode.value];
}

void Tap::take_received(const port::RxFrame& frame, int64_t time_ns) {
  const wire::ParseOutcome parsed = wire::parse_frame({frame.data, frame.length}, packet_);
  const bool roce = parsed.result == wire::ParseResult::kRoce;
  if (roce && is_nak(packet_)) ++naks_;
  if (!is_meant(roce)) return;
  Record record{
      .time_ns = time_ns, .bytes = frame.length, .kind = RecordKind::kIn, .has_icrc = frame.has_icrc};
  if (roce) {
    const QpNumber number = packet_.headers.bth.destination;
    if (options_.order.scope.queue_pair && *options_.order.scope.queue_pair != number) return;
    if (const auto facts = options_.queue_pairs.find(number)) {
      add_context(*facts, record);
      learn(*facts);
    }
  }
  if (options_.order.direction == Direction::kOut) return;  // but what was learnt
  // With a body, what is not looked at is in its sender's memory.
  const bool split = frame.body != nullptr;
  if (burst_size_ < kBurstMax)
    burst_[burst_size_++] = {.position = ring_.position(),
                             .parsed = parsed,
                             .intact = !roce || split || !frame.has_icrc || wire::icrc_matches(packet_)};
  ring_.put(record, {split ? frame.body : frame.data, std::min(frame.length, options_.order.snap_bytes)});
}

void Tap::take_sent(const port::TxFrame& frame, int64_t time_ns) {
  const wire::ParseOutcome parsed = wire::parse_frame({frame.data, frame.length}, packet_);
  const bool roce = parsed.result == wire::ParseResult::kRoce;
  if (roce && is_nak(packet_)) ++naks_;
  if (!is_meant(roce)) return;
  Record record{
      .time_ns = time_ns, .bytes = frame.length, .kind = RecordKind::kOut, .has_icrc = frame.has_icrc};
  if (roce) {
    const auto facts = sender_of();
    if (options_.order.scope.queue_pair && !facts) return;
    if (facts) add_context(*facts, record);
  }
  ring_.put(record, {frame.data, std::min(frame.length, options_.order.snap_bytes)});
}

/// A packet does not say which queue pair it comes from, unless it is a datagram. One that is asked for is
/// looked at; others are known by what came for them.
std::optional<QueuePairFacts> Tap::sender_of() const {
  const QpNumber to = packet_.headers.bth.destination;
  if (packet_.row->headers.has(wire::Header::kDeth)) {
    const QpNumber from = packet_.headers.deth.source;
    if (options_.order.scope.queue_pair && *options_.order.scope.queue_pair != from) return std::nullopt;
    return options_.queue_pairs.find(from);
  }
  const auto of_peer = [&](QpNumber ours) -> std::optional<QueuePairFacts> {
    auto facts = options_.queue_pairs.find(ours);
    return facts && facts->peer == to && facts->peer_address == packet_.destination ? facts : std::nullopt;
  };
  if (options_.order.scope.queue_pair) return of_peer(*options_.order.scope.queue_pair);
  return of_peer(const_cast<Tap*>(this)->peer_slot(packet_.destination, to).ours);
}

Tap::Peer& Tap::peer_slot(const Gid& address, QpNumber number) {
  const uint32_t mixed =
      (number.value ^ uint32_t{address.bytes[15]} << 8 ^ uint32_t{address.bytes[14]}) * 2654435761u;
  return peers_[mixed >> 22 & (kPeersMax - 1)];
}

void Tap::learn(const QueuePairFacts& facts) {
  peer_slot(facts.peer_address, facts.peer) = {facts.peer_address, facts.peer, facts.number};
}

void Tap::add_context(const QueuePairFacts& facts, Record& record) {
  record.has_context = true;
  record.state = facts.state;
  record.queue_pair = facts.number.value;
  record.due_request = facts.due_request;
  record.due_response = facts.due_response;
}

/// The burst that was received last has been performed: what was counted meanwhile says what became of it.
void Tap::settle() {
  uint64_t errors = 0;
  for (const Counter error : kErrors) {
    uint64_t& before = counted_[static_cast<size_t>(error)];
    const uint64_t now = options_.counters.read(error);
    errors += now - std::exchange(before, now);
  }
  if (errors != 0) ring_.count_errors(errors);
  for (size_t i = kFirstReason; i <= kLastReason; ++i) {
    if (!kIsReason[i]) continue;
    const uint64_t now = options_.counters.read(static_cast<Counter>(i));
    const uint64_t times = now - std::exchange(counted_[i], now);
    if (times != 0) give_reasons(static_cast<Counter>(i), times);
  }
  burst_size_ = 0;
}

/// Says the reason of those frames of the burst that can have been dropped for it. If these are more than
/// were, each is said to be one of them.
void Tap::give_reasons(Counter reason, uint64_t times) {
  const std::span<const Received> burst(burst_.data(), burst_size_);
  const auto can_be = [&](const Received& one) { return can_be_reason(one, reason); };
  const auto candidates = static_cast<uint64_t>(std::ranges::count_if(burst, can_be));
  if (candidates == 0) return;
  for (const Received& one : burst) {
    if (!can_be(one)) continue;
    ring_.put({.about = one.position,
               .kind = RecordKind::kReason,
               .reason = static_cast<uint16_t>(reason),
               .candidates = static_cast<uint16_t>(candidates > times ? candidates : 0)},
              {});
  }
  ring_.publish();
}

bool Tap::can_be_reason(const Received& received, Counter reason) {
  if (received.parsed.result == wire::ParseResult::kDropped) return received.parsed.reason == reason;
  if (received.parsed.result == wire::ParseResult::kNotRoce) return false;
  const bool by_parsing = reason <= Counter::kDropPayloadLength;
  return !by_parsing && received.intact == (reason != Counter::kDropIcrc);
}

}  // namespace uroce::capture
