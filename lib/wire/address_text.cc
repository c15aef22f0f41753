#include "wire/address_text.h"

#include <arpa/inet.h>
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <charconv>

namespace uroce::wire {
namespace {

constexpr size_t kMacTextBytes = 17;  // "xx:xx:xx:xx:xx:xx"

std::optional<uint8_t> parse_hex_pair(std::string_view pair) {
  uint8_t value = 0;
  const auto [end, error] = std::from_chars(pair.data(), pair.data() + pair.size(), value, 16);
  if (error != std::errc{} || end != pair.data() + pair.size()) return std::nullopt;
  return value;
}

}  // namespace

std::string to_text(const Gid& gid) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (gid.is_ipv4()) {
    inet_ntop(AF_INET, gid.bytes.data() + 12, text.data(), text.size());
  } else {
    inet_ntop(AF_INET6, gid.bytes.data(), text.data(), text.size());
  }
  return text.data();
}

std::string to_text(const MacAddress& mac) {
  const auto& b = mac.bytes;
  return fmt::format("{:02x}:{:02x}:{:02x}:{:02x}:{:02x}:{:02x}", b[0], b[1], b[2], b[3], b[4], b[5]);
}

std::optional<MacAddress> parse_mac(std::string_view text) {
  if (text.size() != kMacTextBytes) return std::nullopt;
  MacAddress mac;
  for (size_t i = 0; i < mac.bytes.size(); ++i) {
    if (i > 0 && text[3 * i - 1] != ':') return std::nullopt;
    const std::optional<uint8_t> byte = parse_hex_pair(text.substr(3 * i, 2));
    if (!byte) return std::nullopt;
    mac.bytes[i] = *byte;
  }
  return mac;
}

std::optional<Gid> parse_ip(std::string_view text) {
  // inet_pton wants a terminated string: an embedded terminator would hide the rest of the text.
  std::array<char, INET6_ADDRSTRLEN> terminated{};
  if (text.size() >= terminated.size() || text.find('\0') != std::string_view::npos) return std::nullopt;
  std::ranges::copy(text, terminated.begin());

  std::array<uint8_t, 4> ipv4{};
  if (inet_pton(AF_INET, terminated.data(), ipv4.data()) == 1) return Gid::from_ipv4(ipv4);
  Gid gid;
  if (inet_pton(AF_INET6, terminated.data(), gid.bytes.data()) == 1) return gid;
  return std::nullopt;
}

}  // namespace uroce::wire
