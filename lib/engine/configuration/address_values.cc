#include "engine/configuration/address_values.h"

#include <fmt/format.h>

#include <charconv>
#include <string>
#include <string_view>

#include "engine/configuration/key.h"
#include "net/prefix.h"
#include "wire/address_text.h"

namespace uroce::engine {

using namespace configuration;

namespace {

/// Whether the whole text is a number in the range.
template <typename T>
bool read_number(std::string_view text, T& to, int lowest, int highest) {
  int number = -1;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  to = static_cast<T>(number);
  return error == std::errc{} && stop == text.data() + text.size() && number >= lowest && number <= highest;
}

constexpr int kVlanMax = 4094;

/// "192.0.2.1/24".
Complaint store_prefix(const std::string& whole, InterfaceAddress& to) {
  const size_t slash = whole.find('/');
  const auto address = wire::parse_ip(std::string_view(whole).substr(0, slash));
  if (!address || slash == std::string::npos) {
    return fmt::format("\"{}\" is not an address with prefix length such as \"192.0.2.1/24\"", whole);
  }
  const int bits_max = address->is_ipv4() ? 32 : 128;
  if (!read_number(std::string_view(whole).substr(slash + 1), to.prefix_bits, 0, bits_max)) {
    return fmt::format("the prefix length of \"{}\" must be from 0 to {}", whole, bits_max);
  }
  to.address = *address;
  return std::nullopt;
}

Complaint store_address(const toml::node& value, InterfaceAddress& to) {
  const auto* text = value.as_string();
  if (text == nullptr) return "must be a list of addresses such as \"192.0.2.1/24\"";
  const size_t at = text->get().find('@');
  if (at != std::string::npos &&
      !read_number(std::string_view(text->get()).substr(at + 1), to.vlan, 1, kVlanMax))
    return fmt::format("the VLAN of \"{}\" must be from 1 to {}", text->get(), kVlanMax);
  return store_prefix(text->get().substr(0, at), to);
}

Complaint store_router(std::string_view text, Gid& to) {
  const auto router = wire::parse_ip(text);
  if (!router) return fmt::format("\"{}\" is not the address of a router", text);
  to = *router;
  return std::nullopt;
}

}  // namespace

Complaint store_mac(const toml::node& value, MacAddress& to) {
  const auto* text = value.as_string();
  const auto mac = text != nullptr ? wire::parse_mac(text->get()) : std::nullopt;
  if (!mac) return "must be a MAC address such as \"02:00:00:00:00:01\"";
  if ((mac->bytes[0] & 1) != 0 || *mac == MacAddress{}) return "must not be a group address or zero";
  to = *mac;
  return std::nullopt;
}

Complaint store_addresses(const toml::node& value, std::vector<InterfaceAddress>& to) {
  std::vector<InterfaceAddress> list;
  if (Complaint complaint = store_vector(value, list, kListMax, store_address)) return complaint;
  for (size_t i = 0; i < list.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      if (list[i].address == list[j].address)
        return fmt::format("\"{}\" is given twice", wire::to_text(list[i].address));
  to = std::move(list);
  return std::nullopt;
}

Complaint store_neighbour(const toml::node& value, StaticNeighbour& to) {
  constexpr std::string_view kShape = "must be a list of { address = \"...\", mac = \"...\" }";
  const auto* table = value.as_table();
  if (table == nullptr || table->size() != 2) return std::string(kShape);
  const auto* address = table->get("address");
  const auto* mac = table->get("mac");
  if (address == nullptr || mac == nullptr) return std::string(kShape);
  const auto* text = address->as_string();
  const auto gid = text != nullptr ? wire::parse_ip(text->get()) : std::nullopt;
  if (!gid) return "address must be an IP address without prefix length";
  to.address = *gid;
  if (Complaint complaint = store_mac(*mac, to.mac)) return "mac " + *complaint;
  return std::nullopt;
}

Complaint store_route(const toml::node& value, StaticRoute& to) {
  constexpr std::string_view kVia = " via ";
  const auto* text = value.as_string();
  const size_t via = text != nullptr ? text->get().find(kVia) : std::string::npos;
  if (via == std::string::npos) return "must be a list of routes such as \"10.0.0.0/8 via 192.0.2.254\"";
  InterfaceAddress prefix;
  if (Complaint complaint = store_prefix(text->get().substr(0, via), prefix)) return complaint;
  to.to = prefix.address;
  to.prefix_bits = prefix.prefix_bits;
  const net::Prefix network{prefix.address, prefix.prefix_bits};
  if (net::first_of(network) != prefix.address)
    return fmt::format("\"{}\" has bits behind its prefix", text->get().substr(0, via));
  if (Complaint complaint = store_router(std::string_view(text->get()).substr(via + kVia.size()), to.via))
    return complaint;
  if (to.via.is_ipv4() != to.to.is_ipv4()) return fmt::format("\"{}\" is of two families", text->get());
  return std::nullopt;
}

Complaint store_gateways(const toml::node& value, std::vector<Gid>& to) {
  const auto store = [](const toml::node& element, Gid& gateway) {
    const auto* text = element.as_string();
    return text != nullptr ? store_router(text->get(), gateway) : Complaint("must be an address");
  };
  // One alone needs no brackets.
  if (value.is_string()) {
    to.assign(1, {});
    return store(value, to.front());
  }
  std::vector<Gid> list;
  if (Complaint complaint = store_vector(value, list, kListMax, store)) return complaint;
  for (size_t i = 0; i < list.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      if (list[i].is_ipv4() == list[j].is_ipv4()) return "must have one router of each family at most";
  to = std::move(list);
  return std::nullopt;
}

}  // namespace uroce::engine
