// Decision: VPCLMULQDQ folds packets of 256 bytes and more, in vectors of 64 bytes with AVX-512 and of 32
// without. Shorter ones, and up to 512 bytes on other CPUs, are folded in vectors of 16; ISA-L has the rest.
// A call of ISA-L from baseline code cost 200 ns (perf/micro/icrc_bench).
//
// Decision: payloads of 256 bytes and more are copied into the frame and summed up in one pass: what is sent
// is what was summed. A copy that streams begins at the frame's first whole cache line.
#include "wire/icrc/icrc.h"

#include <emmintrin.h>
#include <isa-l/crc.h>

#include <array>

#include "base/values/contract.h"
#include "wire/big_endian.h"
#include "wire/icrc/short.h"
#include "wire/icrc/variant_mask.h"
#include "wire/icrc/wide.h"

namespace uroce::wire {
namespace {

/// Copies `kBytes` and sets the variant fields to ones. Stores whole vectors, the last one (which overlaps)
/// first: the CRC reads the copy back at once, and a read that spans two stores would wait for both.
template <size_t kBytes>
void copy_masked(std::byte* to, const std::byte* from, const std::array<uint8_t, kVariantMaskBytes>& mask) {
  const auto vector_at = [&](size_t at) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + at));
    const __m128i ones = _mm_loadu_si128(reinterpret_cast<const __m128i*>(mask.data() + at));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + at), _mm_or_si128(bytes, ones));
  };
  vector_at(kBytes - sizeof(__m128i));
  for (size_t at = 0; at + sizeof(__m128i) <= kBytes; at += sizeof(__m128i)) vector_at(at);
}

}  // namespace

void Icrc::add_masked_headers(std::span<const std::byte> bytes) {
  UROCE_ASSERT(bytes.size() == kIpv4HeaderBytes || bytes.size() == kIpv6HeaderBytes);
  alignas(64) std::array<std::byte, kIpv6HeaderBytes> copy;
  if (bytes.size() == kIpv4HeaderBytes) {
    copy_masked<kIpv4HeaderBytes>(copy.data(), bytes.data(), kIpv4VariantMask);
  } else {
    copy_masked<kIpv6HeaderBytes>(copy.data(), bytes.data(), kIpv6VariantMask);
  }
  add({copy.data(), bytes.size()});
}

void Icrc::add(std::span<const std::byte> bytes) {
  crc_ = crc32_gzip_refl(crc_, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
}

namespace {

/// The widest way that this CPU has, if any.
struct WideIcrc {
  uint32_t (*of)(std::span<const std::byte> ip_packet, std::span<const std::byte> next) = nullptr;
  CopyWithIcrc copy = nullptr;
  CopyWithIcrc stream = nullptr;
};

WideIcrc widest() {
  if (has_wide_icrc_512()) return {wide_icrc_512, wide_copy_with_icrc_512, wide_stream_with_icrc_512};
  if (has_wide_icrc_256()) return {wide_icrc_256, wide_copy_with_icrc_256, wide_stream_with_icrc_256};
  return {};
}

const WideIcrc kWideIcrc = widest();

uint32_t icrc_in_pieces(std::span<const std::byte> ip_packet) {
  const bool ipv4 = is_masked_as_ipv4(ip_packet);
  const size_t masked = ipv4 ? kIpv4HeaderBytes : kIpv6HeaderBytes;
  Icrc icrc;
  icrc.add_masked_headers(ip_packet.first(masked));
  icrc.add(ip_packet.subspan(masked));
  return icrc.value();
}

/// The ICRC of less than kWideIcrcBytesMin bytes.
uint32_t (*const kShortIcrc)(std::span<const std::byte>) = has_short_icrc() ? short_icrc : icrc_in_pieces;

}  // namespace

CopyWithIcrc widest_copy_with_icrc() { return kWideIcrc.copy; }
CopyWithIcrc widest_stream_with_icrc() { return kWideIcrc.stream; }

// Apart, so that the way to a short one is a jump.
[[gnu::noinline]] uint32_t icrc_of_long(std::span<const std::byte> ip_packet,
                                        std::span<const std::byte> next) {
  if (kWideIcrc.of != nullptr) return kWideIcrc.of(ip_packet, next);
  return ip_packet.size() <= kShortIcrcBytesMax ? kShortIcrc(ip_packet) : icrc_in_pieces(ip_packet);
}

uint32_t icrc_of(std::span<const std::byte> ip_packet) {
  return ip_packet.size() >= kWideIcrcBytesMin ? icrc_of_long(ip_packet, {}) : kShortIcrc(ip_packet);
}

}  // namespace uroce::wire
