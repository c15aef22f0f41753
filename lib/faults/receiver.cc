// Decision: faults apply where packets are received. That side sees every packet once, knows its queue pair,
// and has the ICRC, which frames of the host lack when they are sent. Cost: what leaves for a peer outside
// cannot be lost, while ACKs and responses from there can.
//
// Decision: a request that is to be refused gets a wrong ICRC. So it leaves the fast path where damaged
// packets do, and intact ones pay nothing. Cost: with a copy engine (`device.dmadev`) and several pollers it
// may be lost instead.
#include "faults/receiver.h"

#include <algorithm>
#include <cstring>

#include "base/values/contract.h"
#include "faults/damage.h"
#include "port/frame_body.h"

namespace uroce::faults {
namespace {

/// How long a packet is held back at least, and at most, so that others overtake it.
constexpr Duration kHeldBackMin = microseconds(50);
constexpr Duration kHeldBackMax = microseconds(150);
constexpr int64_t kBitsPerByte = 8;
constexpr int64_t kNsPerS = 1'000'000'000;

/// Whether a responder could give that answer to such a packet.
bool may_refuse(const wire::OpcodeRow& row, Refusal refusal) {
  const wire::Service service = row.opcode.service();
  if (row.response || (service != wire::Service::kRc && service != wire::Service::kXrc)) return false;
  const bool send = row.family == wire::Family::kSend;
  if (refusal == Refusal::kOperational) return send;
  if (refusal != Refusal::kRnr) return true;
  const bool begins =
      (static_cast<unsigned>(row.position) & static_cast<unsigned>(wire::Position::kFirst)) != 0;
  return send ? begins : row.consumes_receive;
}

}  // namespace

Receiver::Receiver(const Options& options)
    : options_(options), delayed_(kDelayedMax, options.frame_bytes), bits_(options.salt) {
  UROCE_ASSERT(options.counts.size() == kRulesMax);
  rules_.reserve(kRulesMax);
  refused_.reserve(kDelayedMax);
}

void Receiver::set(std::span<const NumberedRule> rules) {
  UROCE_ASSERT(rules.size() <= kRulesMax);
  const auto stays = [&](const Active& active) {
    return std::ranges::find(rules, active.numbered.id, &NumberedRule::id) != rules.end();
  };
  for (const Active& active : rules_)
    if (!stays(active)) counts_of(active).id.store(0, std::memory_order_relaxed);  // nothing but a number
  std::erase_if(rules_, [&](const Active& active) { return !stays(active); });
  for (const NumberedRule& numbered : rules) {
    const auto same = [&](const Active& active) { return active.numbered.id == numbered.id; };
    if (std::ranges::none_of(rules_, same)) begin(numbered);
  }
  if (!rules_.empty()) return;
  delayed_.hurry(options_.now);
  last_due_ = options_.now;
}

Receiver::Active& Receiver::begin(const NumberedRule& numbered) {
  size_t slot = 0;
  while (options_.counts[slot].id.load(std::memory_order_relaxed) != 0) ++slot;  // this thread writes it
  for (auto& count : options_.counts[slot].counts) count.store(0, std::memory_order_relaxed);
  // Release: a reader that finds the number finds these counts.
  options_.counts[slot].id.store(numbered.id, std::memory_order_release);
  const Instant begin = options_.now + numbered.rule.after;
  return rules_.emplace_back(Active{.numbered = numbered,
                                    .slot = slot,
                                    .random = Random(numbered.rule.seed + options_.salt),
                                    .begin = begin,
                                    .end = numbered.rule.lasts ? begin + *numbered.rule.lasts : kNever});
}

uint16_t Receiver::receive(std::span<port::RxFrame> frames) {
  begin_burst();
  size_t kept = 0;
  while (kept < frames.size() && !delayed_.empty() && delayed_.first_due() <= options_.now &&
         give_due(frames[kept]))
    ++kept;
  while (kept < frames.size()) {
    const size_t asked = frames.size() - kept;
    const size_t came = options_.port.receive(frames.subspan(kept));
    kept += filter(frames.subspan(kept, came));
    if (came < asked) break;
  }
  burst_ended_ = true;
  return static_cast<uint16_t>(kept);
}

void Receiver::begin_burst() {
  if (!std::exchange(burst_ended_, false)) return;
  refused_.clear();
}

size_t Receiver::filter(std::span<port::RxFrame> frames) {
  begin_burst();
  size_t kept = 0;
  for (port::RxFrame& frame : frames) {
    // The next receive() of the port ends its bodies.
    port::take_body(frame);
    if (pass(frame))
      frames[kept++] = frame;
    else
      options_.port.release({&frame, 1});
  }
  return kept;
}

/// False: the frame is to be released.
bool Receiver::pass(port::RxFrame& frame) {
  const wire::ParseOutcome outcome = wire::parse_frame({frame.data, frame.length}, packet_);
  if (outcome.result != wire::ParseResult::kRoce) return true;
  Fate fate = draw(frame.length);
  if (fate.lost) return false;
  if (fate.marked) mark_congestion(frame, packet_);
  if (fate.corrupted) corrupt(frame, packet_, bits_.next());
  if (fate.refusal && (fate.corrupted || !is_intact(frame, packet_))) fate.refusal.reset();
  if (fate.refusal) spoil_icrc(frame, packet_);
  if (!fate.reordered) fate.due = last_due_ = std::max(fate.due, last_due_);
  const bool waits = fate.due > options_.now;
  if (fate.duplicated) hold(frame, fate.due, fate);
  if (waits) {
    hold(frame, fate.due, fate);
    return false;
  }
  if (fate.refusal) refused_.emplace_back(frame.data, *fate.refusal);
  return true;
}

bool Receiver::concerns(const Active& active) const {
  const Rule& rule = active.numbered.rule;
  if (options_.now < active.begin || options_.now >= active.end) return false;
  return !rule.scope.queue_pair || *rule.scope.queue_pair == packet_.headers.bth.destination;
}

/// What all rules together do to the packet that was parsed.
Receiver::Fate Receiver::draw(uint32_t length) {
  Fate fate{.due = options_.now};
  for (Active& active : rules_)
    if (concerns(active)) draw(active, length, fate);
  return fate;
}

/// Each effect that the rule has takes its number of the sequence whatever the others do, so that a seed
/// tells which packets they meet.
void Receiver::draw(Active& active, uint32_t length, Fate& fate) {
  const Rule& rule = active.numbered.rule;
  counts_of(active).add(FaultCount::kSeen);
  fate.lost |= chance(active, rule.loss, FaultCount::kLost, Counter::kFaultLost);
  fate.duplicated |= chance(active, rule.duplicate, FaultCount::kDuplicated, Counter::kFaultDuplicated);
  fate.corrupted |= chance(active, rule.corrupt, FaultCount::kCorrupted, Counter::kFaultCorrupted);
  fate.marked |= chance(active, rule.ecn, FaultCount::kMarked, Counter::kFaultMarked);
  if (may_refuse(*packet_.row, rule.refusal) && active.random.chance(rule.nak, kPerMillion))
    fate.refusal = {rule.refusal, active.slot};
  Duration wait = rule.delay;
  if (rule.jitter.ns > 0) {
    const uint64_t span = 2 * static_cast<uint64_t>(rule.jitter.ns) + 1;
    wait = wait - rule.jitter + nanoseconds(static_cast<int64_t>(active.random.below(span)));
  }
  if (rule.delay.ns > 0 || rule.rate > 0) count(active, FaultCount::kDelayed, Counter::kFaultDelayed);
  if (rule.rate > 0 && !fate.lost) {
    const int64_t bits = int64_t{length} * kBitsPerByte;
    const Duration time = nanoseconds(
        static_cast<int64_t>(static_cast<double>(bits) * kNsPerS / static_cast<double>(rule.rate)));
    active.link_free = std::max(active.link_free, options_.now) + time;
    wait = wait + (active.link_free - options_.now);
  }
  if (chance(active, rule.reorder, FaultCount::kReordered, Counter::kFaultReordered)) {
    fate.reordered = true;
    const auto span = static_cast<uint64_t>((kHeldBackMax - kHeldBackMin).ns);
    wait = wait + kHeldBackMin + nanoseconds(static_cast<int64_t>(active.random.below(span)));
  }
  fate.due = fate.due + wait;
}

bool Receiver::chance(Active& active, uint32_t of, FaultCount counted, Counter counter) {
  if (of == 0 || !active.random.chance(of, kPerMillion)) return false;
  count(active, counted, counter);
  return true;
}

void Receiver::count(Active& active, FaultCount counted, Counter counter) {
  counts_of(active).add(counted);
  options_.counters.add(counter);
}

/// False: there was no room for the copy.
bool Receiver::hold(const port::RxFrame& frame, Instant due, const Fate& fate) {
  if (delayed_.add({frame.data, frame.length}, due, frame.has_icrc, frame.sender, fate.refusal)) return true;
  options_.counters.add(Counter::kFaultOverflowed);
  for (const Active& active : rules_)
    if (concerns(active)) counts_of(active).add(FaultCount::kOverflowed);
  return false;
}

/// A delayed frame becomes a received one. False: there is no buffer for it now.
bool Receiver::give_due(port::RxFrame& frame) {
  const DelayedFrames::Frame& first = delayed_.first();
  const std::span<const std::byte> bytes = delayed_.bytes_of(first);
  port::TxFrame copy;
  if (options_.port.allocate({&copy, 1}) == 0) return false;
  UROCE_ASSERT(bytes.size() <= copy.capacity);
  std::memcpy(copy.data, bytes.data(), bytes.size());
  copy.length = static_cast<uint32_t>(bytes.size());
  frame = options_.port.loop(copy);
  frame.has_icrc = first.has_icrc;
  frame.sender = first.sender;
  if (first.refusal) refused_.emplace_back(frame.data, *first.refusal);
  delayed_.take_first();
  return true;
}

std::optional<OrderedRefusal> Receiver::refusal_of(const std::byte* frame) const {
  const auto found = std::ranges::find(refused_, frame, &decltype(refused_)::value_type::first);
  return found == refused_.end() ? std::nullopt : std::optional(found->second);
}

void Receiver::note_refused(const OrderedRefusal& refusal) {
  options_.counts[refusal.slot].add(FaultCount::kRefused);
  options_.counters.add(Counter::kFaultRefused);
}

}  // namespace uroce::faults
