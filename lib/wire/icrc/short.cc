#include "wire/icrc/short.h"

#include <isa-l/crc.h>

#include <algorithm>
#include <array>

#include "base/values/contract.h"
#include "wire/big_endian.h"
#include "wire/icrc/crc_folding.h"
#include "wire/icrc/variant_mask.h"

namespace uroce::wire {
namespace {

using namespace folding;

/// So many are folded at once, and depend on what was before only as a whole.
constexpr size_t kStep = 4 * kBlock;

UROCE_PCLMUL inline __m128i load_masked(const std::byte* ip, size_t at, const uint8_t* mask) {
  return _mm_or_si128(load(ip + at), load(mask + at));
}

/// Behind this offset nothing is masked.
constexpr size_t masked_end(const std::array<uint8_t, kVariantMaskBytes>& mask) {
  size_t end = mask.size();
  while (mask[end - 1] == 0) --end;
  return end;
}
constexpr size_t kIpv4MaskedEnd = masked_end(kIpv4VariantMask);
constexpr size_t kIpv6MaskedEnd = masked_end(kIpv6VariantMask);
// Three blocks cover the former, however short the first one is.
static_assert(kIpv4MaskedEnd <= 1 + 2 * kBlock && kIpv6MaskedEnd + kBlock <= kVariantMaskBytes);

/// `block` and the bytes [at, end) behind it, in whole blocks.
UROCE_PCLMUL inline __m128i append_blocks(__m128i block, const std::byte* from, size_t at, size_t end) {
  for (; at + kStep <= end; at += kStep) {
    const __m128i folded01 = _mm_xor_si128(fold<4 * kBlock>(block), fold<3 * kBlock>(load(from + at)));
    const __m128i folded23 =
        _mm_xor_si128(fold<2 * kBlock>(load(from + at + kBlock)), fold<kBlock>(load(from + at + 2 * kBlock)));
    block = _mm_xor_si128(_mm_xor_si128(folded01, folded23), load(from + at + 3 * kBlock));
  }
  for (; at < end; at += kBlock) block = append(block, load(from + at));
  return block;
}

}  // namespace

// What is left over of whole blocks comes first: zeros before a polynomial do not change it.
UROCE_PCLMUL uint32_t short_icrc(std::span<const std::byte> ip_packet) {
  const std::byte* const ip = ip_packet.data();
  const size_t bytes = ip_packet.size();
  const bool ipv4 = is_masked_as_ipv4(ip_packet);
  const uint8_t* const mask = ipv4 ? kIpv4VariantMask.data() : kIpv6VariantMask.data();

  size_t at = (bytes - 1) % kBlock + 1;
  const __m128i first =
      _mm_xor_si128(load_masked(ip, 0, mask), _mm_cvtsi32_si128(static_cast<int>(kRegisterBehindLrh)));
  __m128i block = _mm_shuffle_epi8(first, load(kShifts.data() + at));
  __m128i second = load_masked(ip, at, mask);
  // The register reaches into the second block. No packet is so long: all are whole words.
  if (at < sizeof kRegisterBehindLrh) [[unlikely]]
    second = _mm_xor_si128(second, _mm_cvtsi32_si128(static_cast<int>(kRegisterBehindLrh >> 8 * at)));
  block = append(append(block, second), load_masked(ip, at + kBlock, mask));
  at += 2 * kBlock;
  if (!ipv4) {
    for (; at < kIpv6MaskedEnd; at += kBlock) block = append(block, load_masked(ip, at, mask));
  }
  return ~reduce(append_blocks(block, ip, at, bytes));
}

uint32_t icrc_before_psn(std::span<const std::byte> ip_packet) {
  if (!has_short_icrc()) return 0;
  const bool ipv4 = is_masked_as_ipv4(ip_packet);
  const std::span<const std::byte> before =
      ip_packet.first((ipv4 ? kIpv4HeaderBytes : kIpv6HeaderBytes) - kPsnWordBytes);
  const auto& mask = ipv4 ? kIpv4VariantMask : kIpv6VariantMask;
  std::array<uint8_t, kIpv6HeaderBytes> masked;
  std::ranges::transform(before, mask, masked.begin(),
                         [](std::byte byte, uint8_t ones) { return static_cast<uint8_t>(byte) | ones; });
  return crc32_gzip_refl(~kRegisterBehindLrh, masked.data(), before.size());
}

UROCE_PCLMUL uint32_t short_icrc_from(uint32_t before, std::span<const std::byte> rest) {
  UROCE_ASSERT(!rest.empty() && rest.size() % kPsnWordBytes == 0);
  const size_t at = (rest.size() - 1) % kBlock + 1;
  // Of the bytes that end with the first block those before it do not count.
  const __m128i to_end = load(kShifts.data() + at);
  const __m128i first =
      _mm_blendv_epi8(load(rest.data() + at - kBlock), _mm_setzero_si128(), /* sign bits: */ to_end);
  const __m128i carried = _mm_shuffle_epi8(_mm_cvtsi32_si128(static_cast<int>(~before)), to_end);
  return ~reduce(append_blocks(_mm_xor_si128(first, carried), rest.data(), at, rest.size()));
}

}  // namespace uroce::wire
