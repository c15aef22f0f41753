#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "copy/kernels.h"

// One loop per width, each compiled for its own instruction set by attribute: the rest of the library keeps
// to the baseline. Sources are packets, at any offset, so loads are unaligned; destinations are whole aligned
// lines.

namespace uroce::copy {
namespace {

constexpr size_t kLine = 64;

struct Split {
  size_t head;   // bytes up to the first whole line
  size_t lines;  // bytes in whole lines
};

Split split(const std::byte* to, size_t length) {
  const size_t head = (kLine - reinterpret_cast<uintptr_t>(to) % kLine) % kLine;
  if (head >= length) return {length, 0};
  return {head, (length - head) / kLine * kLine};
}

void stream_lines_128(std::byte* to, const std::byte* from, size_t length) {
  for (size_t at = 0; at < length; at += kLine) {
    const auto* source = reinterpret_cast<const __m128i*>(from + at);
    auto* target = reinterpret_cast<__m128i*>(to + at);
    const __m128i a = _mm_loadu_si128(source);
    const __m128i b = _mm_loadu_si128(source + 1);
    const __m128i c = _mm_loadu_si128(source + 2);
    const __m128i d = _mm_loadu_si128(source + 3);
    _mm_stream_si128(target, a);
    _mm_stream_si128(target + 1, b);
    _mm_stream_si128(target + 2, c);
    _mm_stream_si128(target + 3, d);
  }
}

__attribute__((target("avx2"))) void stream_lines_256(std::byte* to, const std::byte* from, size_t length) {
  for (size_t at = 0; at < length; at += kLine) {
    const auto* source = reinterpret_cast<const __m256i*>(from + at);
    auto* target = reinterpret_cast<__m256i*>(to + at);
    const __m256i a = _mm256_loadu_si256(source);
    const __m256i b = _mm256_loadu_si256(source + 1);
    _mm256_stream_si256(target, a);
    _mm256_stream_si256(target + 1, b);
  }
}

__attribute__((target("avx512f"))) void stream_lines_512(std::byte* to, const std::byte* from,
                                                         size_t length) {
  for (size_t at = 0; at < length; at += kLine) {
    const __m512i line = _mm512_loadu_si512(from + at);
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to + at), line);
  }
}

template <typename StreamLines>
void copy_streaming(StreamLines stream_lines, std::byte* to, const std::byte* from, size_t length) {
  const Split parts = split(to, length);
  const size_t rest = parts.head + parts.lines;
  std::memcpy(to, from, parts.head);
  stream_lines(to + parts.head, from + parts.head, parts.lines);
  std::memcpy(to + rest, from + rest, length - rest);
}

}  // namespace

void copy_non_temporal_128(std::byte* to, const std::byte* from, size_t length) {
  copy_streaming(stream_lines_128, to, from, length);
}

void copy_non_temporal_256(std::byte* to, const std::byte* from, size_t length) {
  copy_streaming(stream_lines_256, to, from, length);
}

void copy_non_temporal_512(std::byte* to, const std::byte* from, size_t length) {
  copy_streaming(stream_lines_512, to, from, length);
}

}  // namespace uroce::copy
