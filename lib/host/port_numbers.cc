#include "host/port_numbers.h"

#include <fmt/format.h>

#include <cerrno>

#include "base/values/contract.h"

namespace uroce::host {
namespace {

constexpr size_t index_of(AddressKind kind) { return static_cast<size_t>(kind); }

constexpr bool is_one_address(AddressKind kind) {
  return kind == AddressKind::kIpv4 || kind == AddressKind::kIpv6;
}

/// Whether some address belongs to both kinds; two single addresses of one family are compared besides.
constexpr bool overlap(AddressKind one, AddressKind other) {
  if (one == AddressKind::kDual || other == AddressKind::kDual) return true;
  const auto is_ipv6 = [](AddressKind kind) { return kind >= AddressKind::kIpv6; };
  return is_ipv6(one) == is_ipv6(other);
}

}  // namespace

const PortNumbers::Bound* PortNumbers::find(Holder holder) const {
  const auto owner = owners_.find(holder.owner);
  if (owner == owners_.end()) return nullptr;
  const auto bound = owner->second.ids.find(holder.id);
  return bound == owner->second.ids.end() ? nullptr : &bound->second;
}

/// The ids that are bound to an address that belongs to the place, too.
PortNumbers::Count PortNumbers::overlapping(const PortPlace& place) const {
  Count sum;
  const auto include = [&](const Count& count) {
    sum.all += count.all;
    sum.unshared += count.unshared;
  };
  const auto port = ports_.find({place.space, place.port});
  if (port == ports_.end()) return sum;
  for (size_t i = 0; i < kAddressKinds; ++i) {
    const auto kind = static_cast<AddressKind>(i);
    const bool both_single = is_one_address(kind) && is_one_address(place.kind);
    if (!both_single && overlap(kind, place.kind)) include(port->second[i]);
  }
  if (!is_one_address(place.kind)) return sum;
  if (const auto same = addresses_.find(place); same != addresses_.end()) include(same->second);
  return sum;
}

bool PortNumbers::free(const PortPlace& place, bool reuse) const {
  const Count others = overlapping(place);
  return (reuse ? others.unshared : others.all) == 0;
}

size_t PortNumbers::count_of_user(uint32_t user) const {
  const auto at = users_.find(user);
  return at == users_.end() ? 0 : at->second;
}

size_t PortNumbers::free_count(uint16_t space) const {
  const auto at = free_.find(space);
  return at == free_.end() ? FreePorts::kCount : at->second.count();
}

bool PortNumbers::is_fresh(uint16_t space, uint16_t port) const {
  return FreePorts::in_range(port) && !ports_.contains({space, port});
}

Status PortNumbers::may_have_one_more(Holder holder, const Shares& shares) const {
  if (const auto owner = owners_.find(holder.owner); owner != owners_.end()) {
    if (owner->second.ids.contains(holder.id)) return Error{EINVAL, "the id is bound"};
    if (owner->second.ids.size() >= kOfOwnerMax) return Error{ENOBUFS, "too many ids are bound"};
  }
  if (count_of_user(holder.user) >= shares.of_user_max)
    return Error{EDQUOT,
                 fmt::format("the programs of a user may bind {} ports together (service.ports_per_user)",
                             shares.of_user_max)};
  return {};
}

Result<uint16_t> PortNumbers::pick(uint16_t space) {
  const auto start = static_cast<uint16_t>(kFirst + random_.below(FreePorts::kCount));
  const auto at = free_.find(space);
  if (at == free_.end()) return start;
  if (const auto port = at->second.next(start)) return *port;
  return Error{EADDRNOTAVAIL, "no port is left"};
}

Result<uint16_t> PortNumbers::bind(const PortRequest& request, Holder holder, const Shares& shares) {
  if (const Status status = may_have_one_more(holder, shares); !status) return status.error();
  PortRequest with_port = request;
  if (request.port == 0) {
    const Result<uint16_t> port = pick(request.space);
    if (!port) return port;
    with_port.port = *port;
  }
  const PortPlace place = PortPlace::of(with_port);
  if (!free(place, request.reuse)) return Error{EADDRINUSE, "the port is another's"};
  const bool scarce = free_count(place.space) <= shares.reserve && is_fresh(place.space, place.port);
  if (scarce && count_of_user(holder.user) >= shares.few)
    return Error{EDQUOT, fmt::format("the last {} ports are for users who have fewer than {}", shares.reserve,
                                     shares.few)};
  const Bound bound{.place = place, .reuse = request.reuse};
  add(bound);
  Owner& owner = owners_[holder.owner];
  if (owner.ids.empty()) owner.user = holder.user;
  owner.ids.emplace(holder.id, bound);
  ++users_[owner.user];
  return place.port;
}

void PortNumbers::add(const Bound& bound) {
  const PortPlace& place = bound.place;
  if (is_fresh(place.space, place.port)) free_[place.space].take(place.port);
  const auto count = [&](Count& to) {
    ++to.all;
    if (!bound.reuse) ++to.unshared;
  };
  count(ports_[{place.space, place.port}][index_of(place.kind)]);
  if (is_one_address(place.kind)) count(addresses_[place]);
}

void PortNumbers::remove(const Bound& bound) {
  const PortPlace& place = bound.place;
  const auto discount = [&](Count& from) {
    --from.all;
    if (!bound.reuse) --from.unshared;
    return from.all == 0;
  };
  if (is_one_address(place.kind)) {
    const auto address = addresses_.find(place);
    if (discount(address->second)) addresses_.erase(address);
  }
  const auto port = ports_.find({place.space, place.port});
  UROCE_ASSERT(port != ports_.end());
  const bool last_of_kind = discount(port->second[index_of(place.kind)]);
  if (!last_of_kind || overlapping({place.space, place.port, AddressKind::kDual, Gid{}}).all != 0) return;
  ports_.erase(port);
  if (!FreePorts::in_range(place.port)) return;
  const auto free = free_.find(place.space);
  free->second.give_back(place.port);
  if (free->second.count() == FreePorts::kCount) free_.erase(free);
}

Status PortNumbers::claim(Holder holder) {
  const auto owner = owners_.find(holder.owner);
  if (owner == owners_.end()) return Error{EINVAL, "not bound"};
  const auto found = owner->second.ids.find(holder.id);
  if (found == owner->second.ids.end()) return Error{EINVAL, "not bound"};
  Bound& own = found->second;
  if (overlapping(own.place).all > 1) return Error{EADDRINUSE, "the port is shared"};
  if (own.reuse) {
    remove(own);
    own.reuse = false;
    add(own);
  }
  own.listens = true;
  listeners_.set(own.place, holder.owner);
  return {};
}

std::optional<PortPlace> PortNumbers::listens(Holder holder) const {
  const Bound* const bound = find(holder);
  return bound != nullptr && bound->listens ? std::optional(bound->place) : std::nullopt;
}

void PortNumbers::release(Holder holder) {
  const auto owner = owners_.find(holder.owner);
  if (owner == owners_.end()) return;
  const auto found = owner->second.ids.extract(holder.id);
  if (found.empty()) return;
  const Bound& bound = found.mapped();
  remove(bound);
  if (bound.listens) listeners_.erase(bound.place, holder.owner);
  const auto user = users_.find(owner->second.user);
  if (--user->second == 0) users_.erase(user);
  if (owner->second.ids.empty()) owners_.erase(owner);
}

std::vector<PortPlace> PortNumbers::release_all(uint32_t owner) {
  std::vector<PortPlace> listened;
  for (auto at = owners_.find(owner); at != owners_.end(); at = owners_.find(owner)) {
    const auto& [id, bound] = *at->second.ids.begin();
    if (bound.listens) listened.push_back(bound.place);
    release({.owner = owner, .id = id});
  }
  return listened;
}

}  // namespace uroce::host
