#pragma once

#include <vector>

#include "engine/configuration/configuration.h"
#include "engine/configuration/toml_values.h"

// Values that are addresses. Each function stores one, and returns what is wrong, in words that fit behind
// the key's name.
namespace uroce::engine {

/// The address of one host.
configuration::Complaint store_mac(const toml::node& value, MacAddress& to);
/// A list of "192.0.2.1/24@VLAN". An address has one VLAN, so it can be told from the address alone.
configuration::Complaint store_addresses(const toml::node& value, std::vector<InterfaceAddress>& to);
/// One { address = "192.0.2.2", mac = "02:00:00:00:00:02" }.
configuration::Complaint store_neighbour(const toml::node& value, StaticNeighbour& to);
/// One "10.0.0.0/8 via 192.0.2.254", both of one family.
configuration::Complaint store_route(const toml::node& value, StaticRoute& to);
/// A router, or a list of at most one of each family.
configuration::Complaint store_gateways(const toml::node& value, std::vector<Gid>& to);

}  // namespace uroce::engine
