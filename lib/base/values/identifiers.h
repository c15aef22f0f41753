#pragma once

#include <array>
#include <bit>
#include <compare>
#include <cstddef>
#include <cstdint>

namespace uroce {

/// Queue pair number: 24 bits.
struct QpNumber {
  static constexpr uint32_t kMask = 0xFFFFFF;
  uint32_t value = 0;
  [[nodiscard]] constexpr auto operator<=>(const QpNumber&) const = default;
};

/// L_Key or R_Key: a 24-bit index and, in the low byte, the 8-bit key that the consumer owns.
struct MemoryKey {
  uint32_t value = 0;

  static constexpr MemoryKey make(uint32_t index, uint8_t key) { return {index << 8 | key}; }
  [[nodiscard]] constexpr uint32_t index() const { return value >> 8; }
  [[nodiscard]] constexpr uint8_t key() const { return static_cast<uint8_t>(value); }
  [[nodiscard]] constexpr auto operator<=>(const MemoryKey&) const = default;
};

/// Number of a protection domain of one device; 0 is none.
struct DomainId {
  uint32_t value = 0;
  [[nodiscard]] constexpr auto operator<=>(const DomainId&) const = default;
};

struct MacAddress {
  std::array<uint8_t, 6> bytes{};

  [[nodiscard]] constexpr auto operator<=>(const MacAddress&) const = default;
  /// By words: an array of bytes is compared by a call.
  [[nodiscard]] constexpr bool operator==(const MacAddress& other) const {
    using Words = std::array<uint16_t, 3>;
    const auto a = std::bit_cast<Words>(bytes);
    const auto b = std::bit_cast<Words>(other.bytes);
    return ((a[0] ^ b[0]) | (a[1] ^ b[1]) | (a[2] ^ b[2])) == 0;
  }
};

/// 128-bit GID in wire order. On RoCEv2 it is the IPv6 address, or ::ffff:a.b.c.d for IPv4.
struct Gid {
  std::array<uint8_t, 16> bytes{};

  [[nodiscard]] constexpr auto operator<=>(const Gid&) const = default;
  /// By words, too.
  [[nodiscard]] constexpr bool operator==(const Gid& other) const {
    using Words = std::array<uint64_t, 2>;
    const auto a = std::bit_cast<Words>(bytes);
    const auto b = std::bit_cast<Words>(other.bytes);
    return ((a[0] ^ b[0]) | (a[1] ^ b[1])) == 0;
  }

  [[nodiscard]] constexpr bool is_ipv4() const {
    for (size_t i = 0; i < 10; ++i) {
      if (bytes[i] != 0) return false;
    }
    return bytes[10] == 0xFF && bytes[11] == 0xFF;
  }
  /// 127.0.0.0/8 or ::1: the host itself, whichever device that is.
  [[nodiscard]] constexpr bool is_loopback() const {
    if (is_ipv4()) return bytes[12] == 127;
    Gid one;
    one.bytes[15] = 1;
    return *this == one;
  }
  static constexpr Gid from_ipv4(std::array<uint8_t, 4> a) {
    Gid gid;
    gid.bytes = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, a[0], a[1], a[2], a[3]};
    return gid;
  }
};

/// Path MTU: bytes of payload in every packet of a message but the last. The values are the wire's codes.
enum class PathMtu : uint8_t { k256 = 1, k512 = 2, k1024 = 3, k2048 = 4, k4096 = 5 };

constexpr uint32_t path_mtu_bytes(PathMtu mtu) { return 128u << static_cast<uint32_t>(mtu); }

}  // namespace uroce
