// Decision: an address is used while others are asked for it, and kept when another neighbour claims it. No
// program waits at its start, or loses its connections. Cost: for a moment two neighbours may have the
// address.
#include "net/own_addresses.h"

#include <algorithm>
#include <utility>

#include "base/values/contract.h"

namespace uroce::net {
namespace {

/// How often it is asked whether another has an address, then how often it is announced.
struct Schedule {
  uint8_t probes;
  uint8_t announcements;
  Duration between_probes;
  Duration before_announcing;
  Duration between_announcements;
};
constexpr Schedule kIpv4{3, 2, seconds(1), seconds(2), seconds(2)};
constexpr Schedule kIpv6{1, 1, seconds(1), seconds(1), seconds(1)};

const Schedule& schedule_of(const Gid& address) { return address.is_ipv4() ? kIpv4 : kIpv6; }

}  // namespace

void OwnAddresses::add(const Gid& address, bool probe) {
  all_.push_back({.address = address, .due = probe ? Instant{} : kNever});
}

void OwnAddresses::remove(const Gid& address) {
  std::erase_if(all_, [&](const Own& own) { return own.address == address; });
}

std::optional<OwnAddresses::Due> OwnAddresses::due(Instant now) const {
  const auto own = std::ranges::find_if(all_, [&](const Own& one) { return one.due <= now; });
  if (own == all_.end()) return std::nullopt;
  const bool probing = own->steps_done < schedule_of(own->address).probes;
  return Due{own->address, probing ? Step::kProbe : Step::kAnnounce};
}

void OwnAddresses::done(const Due& due, Instant now) {
  const auto own = std::ranges::find(all_, due.address, &Own::address);
  const Schedule& schedule = schedule_of(due.address);
  const uint8_t steps = ++own->steps_done;
  if (steps < schedule.probes) {
    own->due = now + schedule.between_probes;
  } else if (steps == schedule.probes) {
    own->due = now + schedule.before_announcing;
  } else if (steps < schedule.probes + schedule.announcements) {
    own->due = now + schedule.between_announcements;
  } else {
    own->due = kNever;
  }
}

Instant OwnAddresses::deadline() const {
  Instant first = kNever;
  for (const Own& own : all_) first = std::min(first, own.due);
  return first;
}

bool OwnAddresses::note_conflict(const Gid& address, MacAddress with, Instant now) {
  const auto own = std::ranges::find(all_, address, &Own::address);
  UROCE_ASSERT(own != all_.end());
  conflict_ = {address, with, !std::exchange(own->contested, true)};
  if (now - own->defended < kDefendEvery) return false;
  own->defended = now;
  return true;
}

std::optional<OwnAddresses::Conflict> OwnAddresses::take_conflict() { return std::exchange(conflict_, {}); }

}  // namespace uroce::net
