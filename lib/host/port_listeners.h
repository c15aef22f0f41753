#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "host/port_place.h"

namespace uroce::host {

/// Which owner listens where. What PortNumbers lets listen overlaps with no other listener, so a request is
/// for one of three places. Logarithmic in the number of listeners, and balanced: ports and addresses are
/// chosen by strangers, and must not fall into one list of a hash table. Not thread-safe.
class PortListeners {
 public:
  void set(const PortPlace& place, uint32_t owner) { owners_[place] = owner; }
  /// If the listener there is the owner.
  void erase(const PortPlace& place, uint32_t owner) {
    const auto at = owners_.find(place);
    if (at != owners_.end() && at->second == owner) owners_.erase(at);
  }
  [[nodiscard]] size_t count() const { return owners_.size(); }

  /// The owner that listens at the port for requests to `destination`, an address of ours or a loopback
  /// address: at that very address, else at all of its family, else at [::] (ListenAddress). Null: there is
  /// none.
  [[nodiscard]] std::optional<uint32_t> find(uint16_t space, uint16_t port, const Gid& destination) const {
    const bool ipv4 = destination.is_ipv4();
    const PortPlace places[] = {
        {space, port, ipv4 ? AddressKind::kIpv4 : AddressKind::kIpv6, destination},
        {space, port, ipv4 ? AddressKind::kAnyIpv4 : AddressKind::kAnyIpv6, Gid{}},
        {space, port, AddressKind::kDual, Gid{}},
    };
    for (const PortPlace& place : places)
      if (const auto at = owners_.find(place); at != owners_.end()) return at->second;
    return std::nullopt;
  }

 private:
  std::map<PortPlace, uint32_t> owners_;
};

}  // namespace uroce::host
