#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/counters/counters.h"
#include "base/values/identifiers.h"
#include "wire/headers.h"
#include "wire/icrc/icrc.h"
#include "wire/icrc/short.h"
#include "wire/icrc/variant_mask.h"
#include "wire/opcode.h"

namespace uroce::wire {

/// UDP destination port of RoCEv2.
inline constexpr uint16_t kRoceUdpPort = 4791;

/// What a packet has in common with all others of its flow.
struct Flow {
  MacAddress source_mac;
  MacAddress destination_mac;
  bool has_vlan = false;
  uint16_t vlan_tci = 0;
  Gid source;  // IPv4 as ::ffff:a.b.c.d
  Gid destination;
  bool ipv4 = false;
  uint8_t traffic_class = 0;
  uint8_t hop_limit = 0;
  uint16_t udp_source_port = 0;
};

/// A received RoCEv2 frame as values. Spans point into the frame and live as long as it does. Of the
/// extension headers only those that `row->headers` names are filled; the others keep what they held, so that
/// a packet can be reused for frame after frame without being cleared.
struct Packet : Flow {
  const OpcodeRow* row = nullptr;  // never null, never an invalid row, after a successful parse
  Headers headers;
  std::span<const std::byte> payload;    // without pad
  std::span<const std::byte> ip_packet;  // first byte of the IP header .. last pad byte: what the ICRC covers
  uint32_t icrc = 0;                     // as received
  uint32_t icrc_before_psn = 0;          // icrc_before_psn(ip_packet), where that is known; IPv4 only
};

/// What a frame turned out to be.
enum class ParseResult : uint8_t {
  kRoce,     // `packet` is filled, all lengths proved; the ICRC is not yet checked
  kNotRoce,  // another protocol (ARP, ICMPv6, another UDP port ...): for `net`
  kDropped,  // malformed, and RoCEv2 or too broken to tell: `reason` says how
};

struct ParseOutcome {
  ParseResult result = ParseResult::kNotRoce;
  Counter reason = Counter::kRxNotRoce;  // the counter of a drop
};

/// Parses an Ethernet frame (without FCS) once. Reads no byte outside `frame`, whatever it holds. Trailing
/// bytes after the IP packet (Ethernet padding) are allowed. The payload rule of the opcode is checked only
/// as far as it does not depend on the path MTU: 0..4096 bytes, none where none may be, 8 where 8 are due.
ParseOutcome parse_frame(std::span<const std::byte> frame, Packet& packet);

/// Compares the received ICRC with the computed one.
inline bool icrc_matches(const Packet& packet) {
  constexpr size_t kBeforePsn = kIpv4HeaderBytes - kPsnWordBytes;
  const uint32_t icrc = packet.icrc_before_psn != 0
                            ? short_icrc_from(packet.icrc_before_psn, packet.ip_packet.subspan(kBeforePsn))
                            : icrc_of(packet.ip_packet);
  return icrc == packet.icrc;
}

}  // namespace uroce::wire
