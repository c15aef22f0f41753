#include "wire/icrc.h"

#include <isa-l/crc.h>

#include <array>
#include <cassert>
#include <cstring>

#include "wire/big_endian.h"
#include "wire/layers.h"

namespace uroce::wire {
namespace {

constexpr size_t kMaskedBytesMax = kIpv6Bytes + kUdpBytes + kBthBytes;

/// Sets the fields that change on the way to ones, in a copy of the headers.
void mask_variant_fields(std::byte* ip, size_t ip_header_bytes) {
  constexpr std::byte kOnes{0xFF};
  if (ip_header_bytes == kIpv4Bytes) {
    ip[1] = kOnes;   // Type of service.
    ip[8] = kOnes;   // Time to live.
    ip[10] = kOnes;  // Header checksum.
    ip[11] = kOnes;
  } else {
    ip[0] |= std::byte{0x0F};  // Traffic class and flow label; the version is covered.
    ip[1] = kOnes;
    ip[2] = kOnes;
    ip[3] = kOnes;
    ip[7] = kOnes;  // Hop limit.
  }
  std::byte* udp = ip + ip_header_bytes;
  udp[6] = kOnes;  // Checksum.
  udp[7] = kOnes;
  udp[kUdpBytes + 4] = kOnes;  // FECN, BECN and the reserved bits of the BTH.
}

}  // namespace

void Icrc::add_masked_headers(std::span<const std::byte> bytes) {
  assert(bytes.size() == kIpv4Bytes + kUdpBytes + kBthBytes || bytes.size() == kMaskedBytesMax);
  std::array<std::byte, kMaskedBytesMax> copy;
  std::memcpy(copy.data(), bytes.data(), bytes.size());
  mask_variant_fields(copy.data(), bytes.size() - kUdpBytes - kBthBytes);
  add({copy.data(), bytes.size()});
}

void Icrc::add(std::span<const std::byte> bytes) {
  crc_ = crc32_gzip_refl(crc_, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
}

uint32_t icrc_of(std::span<const std::byte> ip_packet) {
  const bool ipv4 = load_u8(ip_packet.data()) >> 4 == 4;
  const size_t masked = (ipv4 ? kIpv4Bytes : kIpv6Bytes) + kUdpBytes + kBthBytes;
  Icrc icrc;
  icrc.add_masked_headers(ip_packet.first(masked));
  icrc.add(ip_packet.subspan(masked));
  return icrc.value();
}

}  // namespace uroce::wire
