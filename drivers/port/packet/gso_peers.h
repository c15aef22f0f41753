#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "drivers/port/packet/roce_headers.h"

namespace uroce::drivers {

/// Which peers take GSO frames. Nothing on the link says so, and a packet socket without PACKET_VNET_HDR
/// would be given one in pieces or cut off: so short frames of an end that takes them carry a mark behind the
/// IP packet, where others ignore it, and an end without the mark is sent single frames. One poller's.
class GsoPeers {
 public:
  /// Frames longer than that have no mark, and say nothing.
  static constexpr size_t kMarkedBytesMax = 256;
  static constexpr size_t kMarkBytes = 8;

  static void mark(std::byte* frame, size_t bytes) { std::memcpy(frame + bytes, kMark, kMarkBytes); }
  static bool is_marked(const std::byte* frame, size_t ip_end, size_t bytes) {
    return bytes == ip_end + kMarkBytes && std::memcmp(frame + ip_end, kMark, kMarkBytes) == 0;
  }

  /// A frame of RoceHeaders::length() `length` came, with a mark or without it.
  void learn(const std::byte* frame, uint32_t length, bool takes) {
    const uint64_t peer = key(frame + kSourceMac, source(frame, length));
    uint64_t& place = peers_[peer % peers_.size()];
    if (takes) {
      place = peer;
    } else if (place == peer) {
      place = 0;
    }
  }
  /// Whether the destination of a frame takes them.
  [[nodiscard]] bool take(const std::byte* frame, uint32_t length) const {
    const auto from = source(frame, length);
    const uint64_t peer = key(frame, {from.data() + from.size(), from.size()});
    return peers_[peer % peers_.size()] == peer;
  }

 private:
  static constexpr char kMark[kMarkBytes + 1] = "uroceG32";
  static constexpr size_t kSourceMac = 6;

  static std::span<const std::byte> source(const std::byte* frame, uint32_t length) {
    const size_t bytes = length == RoceHeaders::kIpv4 ? 4 : 16;
    return {frame + length - wire::kUdpBytes - 2 * bytes, bytes};
  }
  /// Hashes a MAC and an IP address, for a MAC may be that of several programs; never 0.
  static uint64_t key(const std::byte* mac, std::span<const std::byte> address) {
    constexpr uint64_t kOdd = 0x9E3779B97F4A7C15;
    uint64_t hash = (uint64_t{wire::load_be32(mac)} << 16 | wire::load_be16(mac + 4)) * kOdd;
    for (size_t i = 0; i < address.size(); i += 4)
      hash = (hash ^ hash >> 29 ^ wire::load_be32(address.data() + i)) * kOdd;
    return (hash ^ hash >> 32) | 1;
  }

  std::array<uint64_t, 1021> peers_{};  // a prime, as keys are odd
};

}  // namespace uroce::drivers
