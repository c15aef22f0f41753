#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/identifiers.h"
#include "wire/headers.h"

namespace uroce::wire {

/// Where a QP's frames go: the address vector with everything resolved. Plain values.
struct Path {
  MacAddress source_mac;
  MacAddress destination_mac;
  bool has_vlan = false;
  uint16_t vlan_tci = 0;
  Gid source;  // both IPv4-mapped or neither
  Gid destination;
  uint8_t traffic_class = 0;
  uint8_t hop_limit = 64;
  uint32_t flow_label = 0;  // 20 bits, IPv6 only
  uint16_t udp_source_port = 0xC000;
};

/// What the UDP source port, by which a network spreads flows over its paths, is made of.
enum class SourcePorts : uint8_t {
  kFlowLabel,  // the flow label or, when that is 0, both queue pair numbers: the same both ways
  kQueuePair,  // our own queue pair number
};

/// 0xC000..0xFFFF (protocol.md 12).
uint16_t udp_source_port(SourcePorts recipe, uint32_t flow_label, QpNumber local, QpNumber remote);

/// Everything before the BTH, made once per QP: Ethernet, optional VLAN, IPv4 or IPv6, UDP.
class FrameTemplate {
 public:
  static constexpr uint32_t kBytesMax = 14 + 4 + 40 + 8;

  FrameTemplate() = default;
  explicit FrameTemplate(const Path& path);

  void set_udp_source_port(uint16_t port);

  [[nodiscard]] uint32_t bytes() const { return bytes_; }          // up to the BTH; 0 before it is made
  [[nodiscard]] uint32_t ip_offset() const { return ip_offset_; }  // of the IP header

  /// Writes bytes() bytes with lengths (and the IPv4 checksum) set for `transport_bytes` bytes, which count
  /// from the BTH to the ICRC inclusive.
  void write(std::byte* to, uint32_t transport_bytes) const;

 private:
  std::array<std::byte, kBytesMax> image_{};
  uint8_t bytes_ = 0;
  uint8_t ip_offset_ = 0;
  uint32_t ipv4_checksum_seed_ = 0;  // sum of the header's words without the total length
};

/// Bytes that a frame needs, Ethernet header to ICRC.
uint32_t frame_bytes(const FrameTemplate& path, Opcode opcode, uint32_t payload_bytes);

/// Writes everything before the payload (the pad count follows from `payload_bytes`) into `buffer`, which
/// holds at least frame_bytes() bytes, and returns where the payload goes.
std::byte* write_headers(std::span<std::byte> buffer, const FrameTemplate& path, const Headers& headers,
                         uint32_t payload_bytes);

/// icrc_of() the headers that were written before a payload that brings no pad.
uint32_t icrc_of_headers(std::span<const std::byte> buffer, const FrameTemplate& path, Opcode opcode);

/// To be called when the payload stands and `icrc` is that of the whole: writes it, returns the frame's
/// length. No pad.
uint32_t finish_frame(std::span<std::byte> buffer, const FrameTemplate& path, Opcode opcode,
                      uint32_t payload_bytes, uint32_t icrc);

/// To be called when the payload stands: writes pad and ICRC, returns the frame's length.
uint32_t finish_frame(std::span<std::byte> buffer, const FrameTemplate& path, Opcode opcode,
                      uint32_t payload_bytes);

}  // namespace uroce::wire
