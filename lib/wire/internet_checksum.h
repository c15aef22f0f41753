#pragma once

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
inline uint64_t word_on_wire(uint16_t value) { return __builtin_bswap16(value); }

/// The 16-bit sum in memory order: 0xFFFF over data that contains its own checksum, if that is right; its
/// complement is the checksum of data that does not.
inline uint16_t fold_sum(uint64_t sum) {
  sum = (sum >> 32) + (sum & 0xFFFFFFFF);
  sum = (sum >> 32) + (sum & 0xFFFFFFFF);
  sum = (sum >> 16) + (sum & 0xFFFF);
  sum = (sum >> 16) + (sum & 0xFFFF);
  return static_cast<uint16_t>(sum);
}

}  // namespace uroce::wire
