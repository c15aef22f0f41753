#include "perf/micro/fused_copy.h"

#include <immintrin.h>
#include <isa-l/crc.h>

#include <iterator>
#include <vector>

namespace uroce::perf {
namespace {

/// x^n modulo the polynomial, bits reflected, where a carry-less multiplication wants it.
constexpr int64_t power(uint32_t n) {
  uint32_t value = 0x80000000;
  for (uint32_t i = 0; i < n; ++i) value = (value >> 1) ^ ((value & 1) != 0 ? 0xEDB88320 : 0);
  return int64_t{value} << 1;
}

/// What moves 16 bytes on by so many bytes.
constexpr int64_t low_factor(uint32_t bytes) { return power(bytes * 8 + 32); }
constexpr int64_t high_factor(uint32_t bytes) { return power(bytes * 8 - 32); }

/// The CRC of what has been folded into 128 or 256 bytes, which has the register's start value in it.
uint32_t crc_of_rest(const std::byte* rest, size_t bytes) {
  return crc32_gzip_refl(~0u, reinterpret_cast<const unsigned char*>(rest), bytes);
}

__attribute__((target("pclmul"))) uint32_t fused_128(std::byte* to, const std::byte* from, size_t length) {
  constexpr size_t kStep = 128;
  const __m128i factors = _mm_set_epi64x(high_factor(kStep), low_factor(kStep));
  __m128i folded[kStep / 16] = {};
  for (size_t at = 0; at < length; at += kStep) {
    for (size_t i = 0; i < std::size(folded); ++i) {
      const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + at + i * 16));
      _mm_stream_si128(reinterpret_cast<__m128i*>(to + at + i * 16), bytes);
      const __m128i moved = _mm_xor_si128(_mm_clmulepi64_si128(folded[i], factors, 0x00),
                                          _mm_clmulepi64_si128(folded[i], factors, 0x11));
      folded[i] = _mm_xor_si128(bytes, moved);
    }
    if (at == 0) folded[0] = _mm_xor_si128(folded[0], _mm_set_epi32(0, 0, 0, -1));
  }
  return crc_of_rest(reinterpret_cast<const std::byte*>(folded), kStep);
}

__attribute__((target("avx2,vpclmulqdq"))) uint32_t fused_256(std::byte* to, const std::byte* from,
                                                              size_t length) {
  constexpr size_t kStep = 128;
  const __m256i factors = _mm256_broadcastsi128_si256(_mm_set_epi64x(high_factor(kStep), low_factor(kStep)));
  __m256i folded[kStep / 32] = {};
  for (size_t at = 0; at < length; at += kStep) {
    for (size_t i = 0; i < std::size(folded); ++i) {
      const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + at + i * 32));
      _mm256_stream_si256(reinterpret_cast<__m256i*>(to + at + i * 32), bytes);
      const __m256i moved = _mm256_xor_si256(_mm256_clmulepi64_epi128(folded[i], factors, 0x00),
                                             _mm256_clmulepi64_epi128(folded[i], factors, 0x11));
      folded[i] = _mm256_xor_si256(bytes, moved);
    }
    if (at == 0) folded[0] = _mm256_xor_si256(folded[0], _mm256_set_epi32(0, 0, 0, 0, 0, 0, 0, -1));
  }
  return crc_of_rest(reinterpret_cast<const std::byte*>(folded), kStep);
}

__attribute__((target("avx512f,vpclmulqdq"))) uint32_t fused_512(std::byte* to, const std::byte* from,
                                                                 size_t length) {
  constexpr size_t kStep = 256;
  constexpr int64_t kHigh = high_factor(kStep), kLow = low_factor(kStep);
  const __m512i factors = _mm512_set_epi64(kHigh, kLow, kHigh, kLow, kHigh, kLow, kHigh, kLow);
  __m512i folded[kStep / 64] = {};
  for (size_t at = 0; at < length; at += kStep) {
    for (size_t i = 0; i < std::size(folded); ++i) {
      const __m512i bytes = _mm512_loadu_si512(from + at + i * 64);
      _mm512_stream_si512(reinterpret_cast<__m512i*>(to + at + i * 64), bytes);
      folded[i] = _mm512_ternarylogic_epi64(bytes, _mm512_clmulepi64_epi128(folded[i], factors, 0x00),
                                            _mm512_clmulepi64_epi128(folded[i], factors, 0x11), 0x96);
    }
    if (at == 0) folded[0] = _mm512_xor_si512(folded[0], _mm512_zextsi128_si512(_mm_set_epi32(0, 0, 0, -1)));
  }
  return crc_of_rest(reinterpret_cast<const std::byte*>(folded), kStep);
}

}  // namespace

std::span<const FusedCopyRow> fused_copies() {
  static const std::vector<FusedCopyRow> rows = [] {
    std::vector<FusedCopyRow> found;
    if (__builtin_cpu_supports("pclmul") != 0) found.push_back({"128", fused_128});
    const bool wide = __builtin_cpu_supports("vpclmulqdq") != 0;
    if (wide && __builtin_cpu_supports("avx2") != 0) found.push_back({"256", fused_256});
    if (wide && __builtin_cpu_supports("avx512f") != 0) found.push_back({"512", fused_512});
    return found;
  }();
  return rows;
}

}  // namespace uroce::perf
