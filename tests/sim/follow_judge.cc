#include "tests/sim/follow_judge.h"

#include <algorithm>

#include "wire/print.h"

namespace uroce::sim {

namespace {

bool parse(std::span<const std::byte> frame, wire::Packet& packet) {
  return wire::parse_frame(frame, packet).result == wire::ParseResult::kRoce;
}

}  // namespace

void FollowJudge::watch(size_t side, QpNumber responder, QpNumber requester, uint32_t mtu) {
  const std::lock_guard lock(mutex_);
  ways_[{side, responder.value}].mtu = mtu;
  responders_[{side, requester.value}] = responder.value;
}

void FollowJudge::arrived(size_t side, std::span<const std::byte> frame) {
  wire::Packet packet;
  if (!parse(frame, packet) || packet.row->response) return;
  const std::lock_guard lock(mutex_);
  const auto found = ways_.find({side, packet.headers.bth.destination.value});
  if (found == ways_.end()) return;
  Way& way = found->second;
  const bool read = packet.row->family == wire::Family::kReadRequest;
  const uint32_t bytes = read ? packet.headers.reth.length : 0;
  const Psn first = packet.headers.bth.psn;
  const Request request{first, first + (bytes == 0 ? 0 : (bytes - 1) / way.mtu)};
  way.goes_back = !packet.headers.bth.migration;
  way.requests.push_back(request);
  if (way.requests.size() > kRequestsMax) way.requests.pop_front();
  if (way.reach) {
    if (request.last.after(*way.reach)) way.reach = request.last;
  } else if (way.told == first) {
    way.reach = request.last;
  }
}

/// The packet may have been taken before the NAK has left; only what came behind it counts.
void FollowJudge::tell(Way& way, Psn missing) {
  way.told = missing;
  way.reach.reset();
  const auto is_missing = [&](const Request& request) { return request.first == missing; };
  const auto from = std::ranges::find_if(way.requests, is_missing);
  for (auto next = from; next != way.requests.end(); ++next)
    if (!way.reach || next->last.after(*way.reach)) way.reach = next->last;
}

void FollowJudge::judge_answer(Way& way, const wire::Packet& packet) {
  const Psn psn = packet.headers.bth.psn;
  const bool nak =
      packet.row->headers.has(wire::Header::kAeth) && packet.headers.aeth.kind != wire::AethKind::kAck;
  const Psn named = nak ? psn - 1u : psn;  // a NAK acknowledges what is before it
  if (way.told && !named.before(*way.told) && (!way.reach || named.after(*way.reach)) && failure_.empty())
    failure_ = "a packet is answered that its sender has not sent once more: " + wire::to_text(packet);
  if (!nak || packet.headers.aeth.kind != wire::AethKind::kNak ||
      packet.headers.aeth.value != static_cast<uint8_t>(wire::NakCode::kSequenceError))
    return;
  tell(way, psn);
  ++naks_;
}

void FollowJudge::left(size_t side, std::span<const std::byte> frame) {
  wire::Packet packet;
  if (!parse(frame, packet) || !packet.row->response) return;
  const std::lock_guard lock(mutex_);
  const auto responder = responders_.find({side, packet.headers.bth.destination.value});
  if (responder == responders_.end()) return;
  Way& way = ways_.at({side, responder->second});
  if (way.goes_back) judge_answer(way, packet);
}

std::string FollowJudge::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

uint64_t FollowJudge::naks() const {
  const std::lock_guard lock(mutex_);
  return naks_;
}

}  // namespace uroce::sim
