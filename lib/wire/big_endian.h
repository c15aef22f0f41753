#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

// Fields of the wire at any alignment. Callers have proved the length.
namespace uroce::wire {

static_assert(std::endian::native == std::endian::little);

inline uint8_t load_u8(const std::byte* from) { return static_cast<uint8_t>(*from); }

inline uint16_t load_be16(const std::byte* from) {
  uint16_t value;
  std::memcpy(&value, from, sizeof value);
  return __builtin_bswap16(value);
}

inline uint32_t load_be32(const std::byte* from) {
  uint32_t value;
  std::memcpy(&value, from, sizeof value);
  return __builtin_bswap32(value);
}

inline uint64_t load_be64(const std::byte* from) {
  uint64_t value;
  std::memcpy(&value, from, sizeof value);
  return __builtin_bswap64(value);
}

/// The low 24 bits of a 32-bit word.
inline uint32_t load_be24(const std::byte* word) { return load_be32(word) & 0xFFFFFF; }

inline void store_u8(std::byte* to, uint8_t value) { *to = static_cast<std::byte>(value); }

inline void store_be16(std::byte* to, uint16_t value) {
  value = __builtin_bswap16(value);
  std::memcpy(to, &value, sizeof value);
}

inline void store_be32(std::byte* to, uint32_t value) {
  value = __builtin_bswap32(value);
  std::memcpy(to, &value, sizeof value);
}

inline void store_be64(std::byte* to, uint64_t value) {
  value = __builtin_bswap64(value);
  std::memcpy(to, &value, sizeof value);
}

}  // namespace uroce::wire
