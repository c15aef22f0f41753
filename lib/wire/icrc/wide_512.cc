#include <array>
#include <cassert>
#include <cstring>

#include "base/threads/claim_line.h"
#include "wire/big_endian.h"
#include "wire/icrc/crc_folding.h"
#include "wire/icrc/variant_mask.h"
#include "wire/icrc/wide.h"

#define UROCE_WIDE __attribute__((target("vpclmulqdq,pclmul,avx512f,avx512vl")))

namespace uroce::wire {
namespace {

using namespace folding;

using Vector = __m512i;
constexpr size_t kVector = 64;

UROCE_WIDE inline Vector load_vector(const void* from) { return _mm512_loadu_si512(from); }
UROCE_WIDE inline void store_vector(void* to, Vector vector) { _mm512_storeu_si512(to, vector); }

/// `to` is aligned to a vector.
UROCE_WIDE inline void stream_vector(void* to, Vector vector) {
  _mm512_stream_si512(static_cast<Vector*>(to), vector);
}
UROCE_WIDE inline Vector add(Vector a, Vector b) { return _mm512_xor_si512(a, b); }
UROCE_WIDE inline Vector either(Vector a, Vector b) { return _mm512_or_si512(a, b); }

UROCE_WIDE inline Vector add3(Vector a, Vector b, Vector c) {
  constexpr int kExclusiveOr = 0x96;
  return _mm512_ternarylogic_epi64(a, b, c, kExclusiveOr);
}

template <unsigned kBytes>
UROCE_WIDE inline Vector fold_vector(Vector vector) {
  constexpr int64_t kLow = factor(kBytes * 8 + 64);
  constexpr int64_t kHigh = factor(kBytes * 8);
  const Vector factors = _mm512_set4_epi64(kHigh, kLow, kHigh, kLow);
  return add(_mm512_clmulepi64_epi128(vector, factors, 0x00),
             _mm512_clmulepi64_epi128(vector, factors, 0x11));
}

UROCE_WIDE inline Vector first_register(uint32_t value) {
  return _mm512_zextsi128_si512(_mm_cvtsi32_si128(static_cast<int>(value)));
}

/// The forms without a mask are some that g++ 12 warns of in its own header.
template <int kIndex>
UROCE_WIDE inline __m128i block_at(Vector vector) {
  return _mm512_maskz_extracti32x4_epi32(0xF, vector, kIndex);
}

UROCE_WIDE inline __m128i block_of(Vector vector) {
  return _mm_xor_si128(
      _mm_xor_si128(fold<3 * kBlock>(block_at<0>(vector)), fold<2 * kBlock>(block_at<1>(vector))),
      _mm_xor_si128(fold<kBlock>(block_at<2>(vector)), block_at<3>(vector)));
}

}  // namespace
}  // namespace uroce::wire

#include "wire/icrc/wide_kernel.inc"

namespace uroce::wire {

UROCE_WIDE uint32_t wide_icrc_512(std::span<const std::byte> ip_packet, std::span<const std::byte> next) {
  return icrc_of_packet(ip_packet, next);
}

UROCE_WIDE void wide_copy_with_icrc_512(std::byte* to, const std::byte* from, size_t bytes, void* icrc) {
  copy_into_icrc(to, from, bytes, icrc);
}

UROCE_WIDE void wide_stream_with_icrc_512(std::byte* to, const std::byte* from, size_t bytes, void* icrc) {
  stream_into_icrc(to, from, bytes, icrc);
}

}  // namespace uroce::wire
