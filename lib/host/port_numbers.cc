#include "host/port_numbers.h"

#include <algorithm>
#include <cerrno>

#include "base/listen_address.h"

namespace uroce::host {
namespace {

bool is_any(const PortRequest& request) {
  return request.address == (request.ipv6 ? Gid{} : Gid::from_ipv4({}));
}

}  // namespace

/// Whether some address belongs to both, which are of one port.
bool PortNumbers::overlap(const PortRequest& one, const PortRequest& other) {
  if (one.ipv6 != other.ipv6) {
    // [::] without IPV6_V6ONLY includes every IPv4 address.
    const PortRequest& six = one.ipv6 ? one : other;
    return is_any(six) && !six.family_only;
  }
  return is_any(one) || is_any(other) || one.address == other.address;
}

bool PortNumbers::free(const PortRequest& request) const {
  const auto at = bound_.find(key_of(request));
  return at == bound_.end() || std::ranges::none_of(at->second, [&](const Bound& bound) {
           return overlap(request, bound.request) && !(request.reuse && bound.request.reuse);
         });
}

Result<uint16_t> PortNumbers::bind(const PortRequest& request, Holder holder) {
  if (const auto owner = owners_.find(holder.owner); owner != owners_.end()) {
    if (owner->second.contains(holder.id)) return Error{EINVAL, "the id is bound"};
    if (owner->second.size() == kOfOwnerMax) return Error{ENOBUFS, "too many ids are bound"};
  }
  PortRequest with_port = request;
  if (request.port == 0) {
    constexpr uint16_t kCount = kLast - kFirst + 1;
    const auto start = static_cast<uint16_t>(random_.below(kCount));
    uint16_t tried = 0;
    do {
      if (tried == kCount) return Error{EADDRNOTAVAIL, "no port is left"};
      with_port.port = static_cast<uint16_t>(kFirst + (start + tried++) % kCount);
    } while (!free(with_port));
  } else if (!free(request)) {
    return Error{EADDRINUSE, "the port is another's"};
  }
  bound_[key_of(with_port)].push_back({with_port, holder});
  owners_[holder.owner].emplace(holder.id, key_of(with_port));
  return with_port.port;
}

Status PortNumbers::claim(Holder holder) {
  const auto owner = owners_.find(holder.owner);
  if (owner == owners_.end()) return Error{EINVAL, "not bound"};
  const auto key = owner->second.find(holder.id);
  if (key == owner->second.end()) return Error{EINVAL, "not bound"};
  std::vector<Bound>& all = bound_[key->second];
  Bound& own = *std::ranges::find(all, holder, &Bound::holder);
  const bool alone = std::ranges::none_of(
      all, [&](const Bound& bound) { return bound.holder != holder && overlap(own.request, bound.request); });
  if (!alone) return Error{EADDRINUSE, "the port is shared"};
  own.request.reuse = false;
  own.listens = true;
  return {};
}

void PortNumbers::release(Holder holder) {
  const auto owner = owners_.find(holder.owner);
  if (owner == owners_.end()) return;
  const auto port = owner->second.extract(holder.id);
  if (port.empty()) return;
  if (owner->second.empty()) owners_.erase(owner);
  const auto at = bound_.find(port.mapped());
  std::erase_if(at->second, [&](const Bound& bound) { return bound.holder == holder; });
  if (at->second.empty()) bound_.erase(at);
}

void PortNumbers::release_all(uint32_t owner) {
  const auto ports = owners_.extract(owner);
  if (ports.empty()) return;
  std::vector<Key> keys;
  for (const auto& [id, key] : ports.mapped()) keys.push_back(key);
  // Many ids may share a port: each port is looked at once.
  std::ranges::sort(keys);
  const auto repeated = std::ranges::unique(keys);
  keys.erase(repeated.begin(), repeated.end());
  for (const Key key : keys) {
    const auto at = bound_.find(key);
    std::erase_if(at->second, [&](const Bound& bound) { return bound.holder.owner == owner; });
    if (at->second.empty()) bound_.erase(at);
  }
}

std::optional<uint32_t> PortNumbers::listener(uint16_t space, uint16_t port, const Gid& destination) const {
  const auto at = bound_.find(key_of(space, port));
  if (at == bound_.end()) return std::nullopt;
  std::optional<uint32_t> best;
  int precision = 0;
  for (const Bound& bound : at->second) {
    if (!bound.listens) continue;
    const ListenAddress address(bound.request.address, bound.request.ipv6 && bound.request.family_only);
    if (const int match = address.precision_for(destination); match > precision) {
      best = bound.holder.owner;
      precision = match;
    }
  }
  return best;
}

}  // namespace uroce::host
