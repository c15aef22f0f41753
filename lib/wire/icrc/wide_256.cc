#include <array>
#include <cassert>
#include <cstring>

#include "base/threads/claim_line.h"
#include "wire/big_endian.h"
#include "wire/icrc/crc_folding.h"
#include "wire/icrc/variant_mask.h"
#include "wire/icrc/wide.h"

#define UROCE_WIDE __attribute__((target("vpclmulqdq,pclmul,avx2")))

namespace uroce::wire {
namespace {

using namespace folding;

using Vector = __m256i;
constexpr size_t kVector = 32;

UROCE_WIDE inline Vector load_vector(const void* from) {
  return _mm256_loadu_si256(static_cast<const Vector*>(from));
}

UROCE_WIDE inline void store_vector(void* to, Vector vector) {
  _mm256_storeu_si256(static_cast<Vector*>(to), vector);
}

/// `to` is aligned to a vector.
UROCE_WIDE inline void stream_vector(void* to, Vector vector) {
  _mm256_stream_si256(static_cast<Vector*>(to), vector);
}
UROCE_WIDE inline Vector add(Vector a, Vector b) { return _mm256_xor_si256(a, b); }
UROCE_WIDE inline Vector add3(Vector a, Vector b, Vector c) { return add(add(a, b), c); }
UROCE_WIDE inline Vector either(Vector a, Vector b) { return _mm256_or_si256(a, b); }

template <unsigned kBytes>
UROCE_WIDE inline Vector fold_vector(Vector vector) {
  const Vector factors =
      _mm256_broadcastsi128_si256(_mm_set_epi64x(factor(kBytes * 8), factor(kBytes * 8 + 64)));
  return add(_mm256_clmulepi64_epi128(vector, factors, 0x00),
             _mm256_clmulepi64_epi128(vector, factors, 0x11));
}

UROCE_WIDE inline Vector first_register(uint32_t value) {
  return _mm256_zextsi128_si256(_mm_cvtsi32_si128(static_cast<int>(value)));
}

UROCE_WIDE inline __m128i block_of(Vector vector) {
  return _mm_xor_si128(fold<kBlock>(_mm256_castsi256_si128(vector)), _mm256_extracti128_si256(vector, 1));
}

}  // namespace
}  // namespace uroce::wire

#include "wire/icrc/wide_kernel.inc"

namespace uroce::wire {

UROCE_WIDE uint32_t wide_icrc_256(std::span<const std::byte> ip_packet, std::span<const std::byte> next) {
  return icrc_of_packet(ip_packet, next);
}

UROCE_WIDE void wide_copy_with_icrc_256(std::byte* to, const std::byte* from, size_t bytes, void* icrc) {
  copy_into_icrc(to, from, bytes, icrc);
}

UROCE_WIDE void wide_stream_with_icrc_256(std::byte* to, const std::byte* from, size_t bytes, void* icrc) {
  stream_into_icrc(to, from, bytes, icrc);
}

}  // namespace uroce::wire
