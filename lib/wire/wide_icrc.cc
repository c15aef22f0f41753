#include "wire/wide_icrc.h"

#include <cassert>
#include <cstring>

#include "wire/big_endian.h"
#include "wire/crc_folding.h"
#include "wire/variant_mask.h"

namespace uroce::wire {
namespace {

using namespace folding;

constexpr size_t kVector = 32;
constexpr size_t kStep = kLanes * kVector;

#define UROCE_VPCLMUL __attribute__((target("vpclmulqdq,pclmul,avx2")))

UROCE_VPCLMUL inline __m256i load_vector(const void* from) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(from));
}

/// Both halves as fold() does it.
template <unsigned kBytes>
UROCE_VPCLMUL inline __m256i fold_vector(__m256i vector) {
  const __m256i factors =
      _mm256_broadcastsi128_si256(_mm_set_epi64x(factor(kBytes * 8), factor(kBytes * 8 + 64)));
  return _mm256_xor_si256(_mm256_clmulepi64_epi128(vector, factors, 0x00),
                          _mm256_clmulepi64_epi128(vector, factors, 0x11));
}

/// What has been folded so far: kStep bytes.
struct Lanes {
  __m256i lane0;
  __m256i lane1;
  __m256i lane2;
  __m256i lane3;
};

/// The vector at `from + at`, which is also stored at `to + at` if that is wanted. Read once: somebody may be
/// writing.
template <bool kCopies>
UROCE_VPCLMUL inline __m256i take(const std::byte* from, [[maybe_unused]] std::byte* to, size_t at) {
  const __m256i vector = load_vector(from + at);
  if constexpr (kCopies) _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + at), vector);
  return vector;
}

template <bool kCopies>
UROCE_VPCLMUL inline Lanes take_step(const std::byte* from, std::byte* to, size_t at) {
  return {take<kCopies>(from, to, at), take<kCopies>(from, to, at + kVector),
          take<kCopies>(from, to, at + 2 * kVector), take<kCopies>(from, to, at + 3 * kVector)};
}

/// The register behind all `bytes`, of which `lanes` are the first kStep.
template <bool kCopies>
UROCE_VPCLMUL inline uint32_t fold_rest(Lanes lanes, const std::byte* from, std::byte* to, size_t bytes) {
  size_t at = kStep;
  for (; at + kStep <= bytes; at += kStep) {
    const Lanes next = take_step<kCopies>(from, to, at);
    lanes.lane0 = _mm256_xor_si256(fold_vector<kStep>(lanes.lane0), next.lane0);
    lanes.lane1 = _mm256_xor_si256(fold_vector<kStep>(lanes.lane1), next.lane1);
    lanes.lane2 = _mm256_xor_si256(fold_vector<kStep>(lanes.lane2), next.lane2);
    lanes.lane3 = _mm256_xor_si256(fold_vector<kStep>(lanes.lane3), next.lane3);
  }
  const __m256i left = _mm256_xor_si256(
      _mm256_xor_si256(fold_vector<3 * kVector>(lanes.lane0), fold_vector<2 * kVector>(lanes.lane1)),
      _mm256_xor_si256(fold_vector<kVector>(lanes.lane2), lanes.lane3));
  __m128i block =
      _mm_xor_si128(fold<kBlock>(_mm256_castsi256_si128(left)), _mm256_extracti128_si256(left, 1));
  for (; at + kBlock <= bytes; at += kBlock) {
    const __m128i next = load(from + at);
    if constexpr (kCopies) _mm_storeu_si128(reinterpret_cast<__m128i*>(to + at), next);
    block = _mm_xor_si128(fold<kBlock>(block), next);
  }
  if (at == bytes) return reduce(block);
  // Of a copy the last block is read where it went: part of it was read before.
  if constexpr (kCopies) std::memcpy(to + at, from + at, bytes - at);
  const std::byte* const end = (kCopies ? to : from) + bytes;
  return reduce(append_tail(block, load(end - kBlock), bytes - at));
}

/// `register_before` comes in where the message polynomial begins.
UROCE_VPCLMUL inline __m256i begin_with(uint32_t register_before, __m256i first) {
  return _mm256_xor_si256(first,
                          _mm256_zextsi128_si256(_mm_cvtsi32_si128(static_cast<int>(register_before))));
}

}  // namespace

UROCE_VPCLMUL uint32_t wide_icrc(std::span<const std::byte> ip_packet) {
  assert(ip_packet.size() >= kWideIcrcBytesMin);
  const std::byte* const ip = ip_packet.data();
  const uint8_t* const mask = load_u8(ip) >> 4 == 4 ? kIpv4VariantMask.data() : kIpv6VariantMask.data();
  Lanes lanes = take_step<false>(ip, nullptr, 0);
  // Whatever is masked lies in the first 64 bytes.
  lanes.lane0 = begin_with(kRegisterBehindLrh, _mm256_or_si256(lanes.lane0, load_vector(mask)));
  lanes.lane1 = _mm256_or_si256(lanes.lane1, load_vector(mask + kVector));
  return ~fold_rest<false>(lanes, ip, nullptr, ip_packet.size());
}

UROCE_VPCLMUL void wide_copy_with_icrc(std::byte* to, const std::byte* from, size_t bytes, void* icrc) {
  assert(bytes >= kWideIcrcBytesMin);
  auto& value = *static_cast<uint32_t*>(icrc);
  Lanes lanes = take_step<true>(from, to, 0);
  lanes.lane0 = begin_with(~value, lanes.lane0);
  value = ~fold_rest<true>(lanes, from, to, bytes);
}

}  // namespace uroce::wire
