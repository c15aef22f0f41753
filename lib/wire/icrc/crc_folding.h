#pragma once

#include <immintrin.h>

#include <array>
#include <cstddef>
#include <cstdint>

// CRC-32 by carry-less multiplication. Sixteen bytes X in a register are a polynomial, most significant
// coefficient in bit 0 (the CRC is reflected). To append D bits behind X is to multiply by x^D, and modulo
// the CRC's polynomial P that is (first half)(x^(D+64) mod P) + (second half)(x^D mod P): two multiplications
// for a whole block. A product of two reflected 64-bit registers comes out multiplied by x, so every constant
// is one power lower.
namespace uroce::wire::folding {

inline constexpr uint32_t kPolynomial = 0x04C11DB7;  // of CRC-32, without x^32
inline constexpr uint32_t kRegisterBehindLrh = 0xDEBB20E3;
inline constexpr size_t kBlock = 16;
inline constexpr size_t kLanes = 4;

constexpr uint64_t reversed(uint64_t value, int bits) {
  uint64_t result = 0;
  for (int i = 0; i < bits; ++i) result |= (value >> i & 1) << (bits - 1 - i);
  return result;
}

/// x^n mod P.
constexpr uint32_t power(unsigned n) {
  uint32_t value = 1;
  for (; n > 0; --n) value = (value << 1) ^ ((value >> 31) != 0 ? kPolynomial : 0);
  return value;
}

/// The factor that multiplies a reflected register by x^n mod P.
constexpr int64_t factor(unsigned n) { return static_cast<int64_t>(reversed(power(n - 1), 64)); }

/// floor(x^95 / P), 64 bits.
constexpr uint64_t quotient_of_x95() {
  uint64_t quotient = 0;
  uint64_t remainder = 1;  // long division, one coefficient of x^95 after the other
  for (int i = 0; i < 95; ++i) {
    remainder <<= 1;
    quotient <<= 1;
    if ((remainder >> 32) != 0) {
      remainder ^= uint64_t{1} << 32 | kPolynomial;
      quotient |= 1;
    }
  }
  return quotient;
}

inline constexpr auto kQuotient = static_cast<int64_t>(reversed(quotient_of_x95(), 64));
inline constexpr auto kDivisor = static_cast<int64_t>(reversed(uint64_t{1} << 32 | kPolynomial, 33));

/// A window of sixteen bytes at 16 - n is the shuffle that moves a register n bytes towards its end and fills
/// with zeros; one at 16 + n moves it towards its beginning.
alignas(64) inline constexpr std::array<uint8_t, 48> kShifts = {
    0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80,
    0,    1,    2,    3,    4,    5,    6,    7,    8,    9,    10,   11,   12,   13,   14,   15,
    0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80};

// AVX for its forms with three operands, of vectors of 16 bytes only.
#define UROCE_PCLMUL __attribute__((target("pclmul,avx")))

UROCE_PCLMUL inline __m128i load(const void* from) {
  return _mm_loadu_si128(static_cast<const __m128i*>(from));
}

/// What `block` amounts to `kBytes` further on.
template <unsigned kBytes>
UROCE_PCLMUL inline __m128i fold(__m128i block) {
  const __m128i factors = _mm_set_epi64x(factor(kBytes * 8), factor(kBytes * 8 + 64));
  return _mm_xor_si128(_mm_clmulepi64_si128(block, factors, 0x00),
                       _mm_clmulepi64_si128(block, factors, 0x11));
}

/// What `block` and `next` behind it amount to at the end of `next`.
UROCE_PCLMUL inline __m128i append(__m128i block, __m128i next) {
  return _mm_xor_si128(fold<kBlock>(block), next);
}

/// Register of the CRC (before the final xor) from the sixteen bytes that are left: their polynomial times
/// x^32, mod P.
UROCE_PCLMUL inline uint32_t reduce(__m128i block) {
  // Times x^32, folded to 96 coefficients in the first 96 bits, which the factors without their 32 zeros do.
  constexpr auto kLow = static_cast<int64_t>(static_cast<uint64_t>(factor(96)) >> 32);
  constexpr auto kHigh = static_cast<int64_t>(static_cast<uint64_t>(factor(32)) >> 32);
  const __m128i factors = _mm_set_epi64x(kHigh, kLow);
  const __m128i left96 =
      _mm_xor_si128(_mm_clmulepi64_si128(block, factors, 0x00), _mm_clmulepi64_si128(block, factors, 0x11));
  // Barrett's division of the upper 64 by P: the first half of the product is the whole quotient, and of the
  // quotient times P the lower 32 stand where they are in what is left.
  const __m128i division = _mm_set_epi64x(kDivisor, kQuotient);
  const __m128i quotient = _mm_clmulepi64_si128(left96, division, 0x00);
  const __m128i product = _mm_clmulepi64_si128(quotient, division, 0x10);
  return static_cast<uint32_t>(_mm_extract_epi32(_mm_xor_si128(left96, product), 2));
}

/// Appends the last `count` (1..15) bytes, which `last` ends with, to `block`.
UROCE_PCLMUL inline __m128i append_tail(__m128i block, __m128i last, size_t count) {
  const __m128i to_end = load(kShifts.data() + count);
  const __m128i to_beginning = load(kShifts.data() + kBlock + count);
  const __m128i overflow = _mm_shuffle_epi8(block, to_end);
  const __m128i kept = _mm_shuffle_epi8(block, to_beginning);
  // The shuffle's sign bits mark exactly the bytes that the block left free.
  return _mm_xor_si128(fold<kBlock>(overflow), _mm_blendv_epi8(kept, last, to_beginning));
}

}  // namespace uroce::wire::folding
