#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "base/values/identifiers.h"
#include "wire/headers.h"
#include "wire/icrc/icrc.h"
#include "wire/icrc/short.h"
#include "wire/icrc/variant_mask.h"
#include "wire/internet_checksum.h"
#include "wire/layers.h"
#include "wire/transport.h"

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
  uint16_t udp_source_port = 0xC000;
  uint32_t flow_label = 0;  // 20 bits, IPv6 only
};

/// What the UDP source port, by which a network spreads flows over its paths, is made of.
enum class SourcePorts : uint8_t {
  kFlowLabel,  // the flow label or, when that is 0, both queue pair numbers: the same both ways
  kQueuePair,  // our own queue pair number
};

/// 0xC000..0xFFFF (lib/README.md, wire fact 12).
uint16_t udp_source_port(SourcePorts recipe, uint32_t flow_label, QpNumber local, QpNumber remote);

/// Everything before the BTH, made once per QP: Ethernet, optional VLAN, IPv4 or IPv6, UDP; and of the BTH
/// what is the same in all packets to one queue pair.
class FrameTemplate {
 public:
  static constexpr uint32_t kBytesMax = 14 + 4 + 40 + 8;

  FrameTemplate() = default;
  explicit FrameTemplate(const Path& path);

  void set_udp_source_port(uint16_t port);
  /// Before write_packet(). `mig_req`: MigReq of the packets to this peer.
  void set_peer(uint16_t partition_key, QpNumber destination, bool mig_req);

  [[nodiscard]] uint32_t bytes() const { return bytes_; }          // up to the BTH; 0 before it is made
  [[nodiscard]] uint32_t ip_offset() const { return ip_offset_; }  // of the IP header

  /// Writes bytes() bytes with lengths (and the IPv4 checksum) set for `transport_bytes` bytes, which count
  /// from the BTH to the ICRC inclusive; and behind them something that is to become the BTH.
  void write(std::byte* to, uint32_t transport_bytes) const {
    constexpr uint32_t kTagged = kEthernetBytes + kVlanTagBytes;
    switch (bytes_) {
      [[likely]] case kEthernetBytes + kIpv4Bytes + kUdpBytes:
        return write_as<kEthernetBytes, kIpv4Bytes>(to, transport_bytes);
      case kEthernetBytes + kIpv6Bytes + kUdpBytes:
        return write_as<kEthernetBytes, kIpv6Bytes>(to, transport_bytes);
      case kTagged + kIpv4Bytes + kUdpBytes:
        return write_as<kTagged, kIpv4Bytes>(to, transport_bytes);
      default:
        return write_as<kTagged, kIpv6Bytes>(to, transport_bytes);
    }
  }
  /// Writes the headers and the BTH of a packet to the peer. Most differ from the last one's in the PSN
  /// alone, so these are kept. Returns icrc_of() what stands before the PSN, or 0: not known.
  uint32_t write_packet(std::byte* to, uint32_t transport_bytes, const PacketBth& bth, uint32_t pad) {
    const uint32_t kind = kind_of(bth, transport_bytes, pad);
    if (kind != kind_) [[unlikely]] {
      turn_to(kind);
    } else if (icrc_before_psn_ == 0) [[unlikely]] {
      icrc_before_psn_ =
          wire::icrc_before_psn({image_.data() + ip_offset_, image_.data() + bytes_ + kBthBytes});
    }
    write_again(to, bth.ack_request, bth.psn);
    return icrc_before_psn_;
  }
  /// What the packets have in common that are written like the last one; never 0 after write_packet().
  [[nodiscard]] uint32_t kind() const { return kind_; }
  static uint32_t kind_of(const PacketBth& bth, uint32_t transport_bytes, uint32_t pad) {
    return transport_bytes << 16 | beginning_of_bth(bth.opcode, bth.solicited, pad);
  }
  [[nodiscard]] uint32_t icrc_before_psn() const { return icrc_before_psn_; }
  /// The headers up to and with the BTH of another packet of that kind().
  void write_again(std::byte* to, bool ack_request, Psn psn) const {
    constexpr uint32_t kPlain = kEthernetBytes + kIpv4Bytes + kUdpBytes;
    if (bytes_ == kPlain) [[likely]] {
      std::memcpy(to, image_.data(), kPlain + kBthBytes);
      return write_psn_word(to + kPlain + kBthBytes - kPsnWordBytes, ack_request, psn);
    }
    std::memcpy(to, image_.data(), bytes_ + kBthBytes);
    write_psn_word(to + bytes_ + kBthBytes - kPsnWordBytes, ack_request, psn);
  }

 private:
  [[gnu::noinline]] void turn_to(uint32_t kind);
  /// With constant sizes: then the copy is a few vector moves.
  template <uint32_t kIpOffset, uint32_t kIpBytes>
  void write_as(std::byte* to, uint32_t transport_bytes) const {
    constexpr uint32_t kBytes = kIpOffset + kIpBytes + kUdpBytes + kBthBytes;
    std::memcpy(to, image_.data(), kBytes);
    set_lengths(to + kIpOffset, kIpBytes, transport_bytes);
  }
  void set_lengths(std::byte* ip, uint32_t ip_bytes, uint32_t transport_bytes) const {
    const auto udp_bytes = static_cast<uint16_t>(kUdpBytes + transport_bytes);
    store_be16(ip + ip_bytes + 4, udp_bytes);
    if (ip_bytes == kIpv4Bytes) {
      const auto total = static_cast<uint16_t>(kIpv4Bytes + udp_bytes);
      const auto checksum = static_cast<uint16_t>(~fold_short_sum(ipv4_checksum_seed_ + word_on_wire(total)));
      store_be16(ip + 2, total);
      std::memcpy(ip + 10, &checksum, sizeof checksum);
    } else {
      store_be16(ip + 4, udp_bytes);
    }
  }

  std::array<std::byte, kBytesMax + kBthBytes> image_{};
  uint8_t bytes_ = 0;
  uint8_t ip_offset_ = 0;
  bool mig_req_ = false;             // of the packets to the peer
  uint32_t ipv4_checksum_seed_ = 0;  // sum of the header's words without the total length
  // Of the packet that was written last; the image is its.
  uint32_t kind_ = 0;  // length and beginning of the BTH
  uint32_t icrc_before_psn_ = 0;
};

/// What a frame consists of, as the offsets of its parts.
struct FrameLayout {
  FrameLayout(const FrameTemplate& path, const OpcodeRow& row, uint32_t payload_bytes)
      : bth(path.bytes()),
        payload(bth + row.header_bytes),
        pad(payload + payload_bytes),
        icrc(pad + (-payload_bytes & 3)),
        end(icrc + kIcrcBytes) {}

  uint32_t bth;
  uint32_t payload;
  uint32_t pad;
  uint32_t icrc;
  uint32_t end;
};

/// Bytes that a frame needs, Ethernet header to ICRC.
uint32_t frame_bytes(const FrameTemplate& path, Opcode opcode, uint32_t payload_bytes);

/// Writes everything before the payload (the pad count follows from `payload_bytes`) into `buffer`, which
/// holds at least frame_bytes() bytes, and returns where the payload goes.
std::byte* write_headers(std::span<std::byte> buffer, const FrameTemplate& path, const Headers& headers,
                         uint32_t payload_bytes);

/// To be called when the payload stands: writes pad and ICRC, returns the frame's length.
uint32_t finish_frame(std::span<std::byte> buffer, const FrameTemplate& path, Opcode opcode,
                      uint32_t payload_bytes);

// The parts of the above, for callers that know the layout.

inline void write_headers(std::byte* frame, const FrameTemplate& path, const OpcodeRow& row,
                          const Headers& headers, const FrameLayout& layout) {
  path.write(frame, layout.end - layout.bth);
  write_transport(frame + layout.bth, row, headers, layout.icrc - layout.pad);
}

/// A whole word of zeros covers 0 to 3 bytes of pad; the ICRC then covers the rest of it.
inline void write_pad(std::byte* frame, const FrameLayout& layout) { store_be32(frame + layout.pad, 0); }

/// Writes the ICRC of the `bytes` bytes from the IP header on behind them.
void append_icrc(std::byte* ip_packet, size_t bytes);
/// Writes the ICRC of a packet behind it, from its PSN on; `before` is its icrc_before_psn().
void append_icrc_from(std::byte* psn, size_t bytes, uint32_t before);

inline void write_icrc(std::byte* to, uint32_t icrc) {
  std::memcpy(to, &icrc, sizeof icrc);  // Least significant byte first.
}

inline void write_pad_and_icrc(std::byte* frame, const FrameTemplate& path, const FrameLayout& layout) {
  write_pad(frame, layout);
  write_icrc(frame + layout.icrc, icrc_of({frame + path.ip_offset(), frame + layout.icrc}));
}

}  // namespace uroce::wire
