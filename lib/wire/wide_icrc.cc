#include "wire/wide_icrc.h"

#include <cassert>

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

}  // namespace

UROCE_VPCLMUL uint32_t wide_icrc(std::span<const std::byte> ip_packet) {
  assert(ip_packet.size() >= kWideIcrcBytesMin);
  const std::byte* const ip = ip_packet.data();
  const size_t bytes = ip_packet.size();
  const uint8_t* const mask = load_u8(ip) >> 4 == 4 ? kIpv4VariantMask.data() : kIpv6VariantMask.data();

  // Whatever is masked lies in the first 64 bytes.
  __m256i lane0 = _mm256_or_si256(load_vector(ip), load_vector(mask));
  __m256i lane1 = _mm256_or_si256(load_vector(ip + 32), load_vector(mask + 32));
  __m256i lane2 = load_vector(ip + 64);
  __m256i lane3 = load_vector(ip + 96);
  lane0 = _mm256_xor_si256(lane0,
                           _mm256_zextsi128_si256(_mm_cvtsi32_si128(static_cast<int>(kRegisterBehindLrh))));
  size_t at = kStep;
  for (; at + kStep <= bytes; at += kStep) {
    lane0 = _mm256_xor_si256(fold_vector<kStep>(lane0), load_vector(ip + at));
    lane1 = _mm256_xor_si256(fold_vector<kStep>(lane1), load_vector(ip + at + 32));
    lane2 = _mm256_xor_si256(fold_vector<kStep>(lane2), load_vector(ip + at + 64));
    lane3 = _mm256_xor_si256(fold_vector<kStep>(lane3), load_vector(ip + at + 96));
  }
  const __m256i left = _mm256_xor_si256(_mm256_xor_si256(fold_vector<96>(lane0), fold_vector<64>(lane1)),
                                        _mm256_xor_si256(fold_vector<32>(lane2), lane3));
  __m128i block =
      _mm_xor_si128(fold<kBlock>(_mm256_castsi256_si128(left)), _mm256_extracti128_si256(left, 1));
  for (; at + kBlock <= bytes; at += kBlock) block = _mm_xor_si128(fold<kBlock>(block), load(ip + at));
  if (at < bytes) block = append_tail(block, load(ip + bytes - kBlock), bytes - at);
  return ~reduce(block);
}

}  // namespace uroce::wire
