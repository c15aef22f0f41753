#include "wire/ip_cm.h"

#include <algorithm>
#include <cstring>

#include "wire/big_endian.h"

namespace uroce::wire {
namespace {

constexpr size_t kAddressBytes = 16;
constexpr size_t kSourceAt = 4;
constexpr size_t kDestinationAt = kSourceAt + kAddressBytes;

// An IPv4 address stands in the last four of its sixteen bytes, behind zeroes.
constexpr size_t kIpv4At = 12;

Gid read_address(const std::byte* at, bool ipv4) {
  Gid gid;
  std::memcpy(gid.bytes.data(), at, kAddressBytes);
  if (ipv4) gid = Gid::from_ipv4({gid.bytes[12], gid.bytes[13], gid.bytes[14], gid.bytes[15]});
  return gid;
}

void write_address(std::byte* at, const Gid& gid, bool ipv4) {
  std::memcpy(at, gid.bytes.data(), kAddressBytes);
  if (ipv4) std::fill_n(at, kIpv4At, std::byte{0});
}

}  // namespace

std::optional<IpCmHeader> parse_ip_cm(std::span<const std::byte> data) {
  if (data.size() < kIpCmBytes || load_u8(data.data()) != 0) return std::nullopt;
  const uint8_t ip_version = load_u8(data.data() + 1) >> 4;
  if (ip_version != 4 && ip_version != 6) return std::nullopt;
  IpCmHeader header;
  header.ipv4 = ip_version == 4;
  header.source_port = load_be16(data.data() + 2);
  header.source = read_address(data.data() + kSourceAt, header.ipv4);
  header.destination = read_address(data.data() + kDestinationAt, header.ipv4);
  return header;
}

void write_ip_cm(std::byte* to, const IpCmHeader& header) {
  store_u8(to, 0);
  store_u8(to + 1, header.ipv4 ? 0x40 : 0x60);
  store_be16(to + 2, header.source_port);
  write_address(to + kSourceAt, header.source, header.ipv4);
  write_address(to + kDestinationAt, header.destination, header.ipv4);
}

}  // namespace uroce::wire
