#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

// One's complement sums (RFC 1071). Words are summed as they lie in memory: the sum of swapped words is the
// swapped sum, so only constants need care.
namespace uroce::wire {

/// Adds `bytes` to `sum`, an odd last byte as if a zero followed. Up to 16 GiB fit without overflow.
inline uint64_t add_words(std::span<const std::byte> bytes, uint64_t sum = 0) {
  const std::byte* at = bytes.data();
  size_t left = bytes.size();
  for (; left >= sizeof(uint32_t); left -= sizeof(uint32_t), at += sizeof(uint32_t)) {
    uint32_t word;
    std::memcpy(&word, at, sizeof word);
    sum += word;
  }
  uint32_t tail = 0;
  if (left > 0) std::memcpy(&tail, at, left);
  return sum + tail;
}

/// A 16-bit field of a pseudo-header, as add_words would see it on the wire.
inline uint16_t word_on_wire(uint16_t value) { return __builtin_bswap16(value); }

/// A sum of two words, or of any number, to one of 16 bits in memory order: 0xFFFF over data that contains
/// its own checksum, if that is right; its complement is the checksum of data that does not. One half is
/// added to the other each time, and the carry of the lower half comes round into the upper one.
inline uint16_t fold_short_sum(uint32_t sum) {
  return static_cast<uint16_t>((sum + std::rotl(sum, 16)) >> 16);
}
inline uint16_t fold_sum(uint64_t sum) {
  return fold_short_sum(static_cast<uint32_t>((sum + std::rotl(sum, 32)) >> 32));
}

}  // namespace uroce::wire
