#include "parse_property.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "wire/frame.h"
#include "wire/icrc.h"
#include "wire/packet.h"
#include "wire/print.h"

namespace uroce::fuzz {
namespace {

using wire::Packet;

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "broken: %s\n", what);
  std::abort();
}

bool inside(std::span<const std::byte> part, std::span<const std::byte> whole) {
  return part.data() >= whole.data() && part.data() + part.size() <= whole.data() + whole.size();
}

void check_parsed(const Packet& packet, std::span<const std::byte> frame) {
  require(packet.row != nullptr && packet.row->valid, "a parsed packet has a valid row");
  require(packet.row->opcode == packet.headers.bth.opcode, "the row is that of the opcode");
  require(inside(packet.ip_packet, frame), "the IP packet is inside the frame");
  require(inside(packet.payload, packet.ip_packet), "the payload is inside the IP packet");
  require(packet.payload.data() + packet.payload.size() + packet.headers.bth.pad ==
              packet.ip_packet.data() + packet.ip_packet.size(),
          "payload and pad end the IP packet");
  require(packet.payload.size() <= wire::kPayloadBytesMax, "the payload is not longer than any path MTU");
}

/// The ICRC does not depend on how the packet is cut.
void check_icrc(const Packet& packet) {
  const uint32_t whole = wire::icrc_of(packet.ip_packet);
  const size_t masked = packet.ipv4 ? 40 : 60;
  wire::Icrc pieces;
  pieces.add_masked_headers(packet.ip_packet.first(masked));
  const std::span<const std::byte> rest = packet.ip_packet.subspan(masked);
  pieces.add(rest.first(rest.size() / 3));
  pieces.add(rest.subspan(rest.size() / 3));
  require(pieces.value() == whole, "the ICRC of pieces is that of the whole");
  require(wire::icrc_matches(packet) == (whole == packet.icrc), "icrc_matches compares with the ICRC");
}

void check_emitted(const Packet& packet) {
  // An IPv6 header with a mapped address is not something that we emit.
  if (packet.source.is_ipv4() != packet.ipv4 || packet.destination.is_ipv4() != packet.ipv4) return;
  const wire::Path path{.source_mac = packet.source_mac,
                        .destination_mac = packet.destination_mac,
                        .has_vlan = packet.has_vlan,
                        .vlan_tci = packet.vlan_tci,
                        .source = packet.source,
                        .destination = packet.destination,
                        .traffic_class = packet.traffic_class,
                        .hop_limit = packet.hop_limit,
                        .udp_source_port = packet.udp_source_port};
  const wire::FrameTemplate frame_template(path);
  const wire::Opcode opcode = packet.headers.bth.opcode;
  const auto payload_bytes = static_cast<uint32_t>(packet.payload.size());
  std::vector<std::byte> emitted(wire::frame_bytes(frame_template, opcode, payload_bytes));
  std::ranges::copy(packet.payload,
                    wire::write_headers(emitted, frame_template, packet.headers, payload_bytes));
  require(wire::finish_frame(emitted, frame_template, opcode, payload_bytes) == emitted.size(),
          "frame_bytes is right");

  Packet again;
  require(wire::parse_frame(emitted, again).result == wire::ParseResult::kRoce, "what we emit parses");
  require(wire::icrc_matches(again), "what we emit has a right ICRC");
  require(wire::to_text(again) == wire::to_text(packet), "what we emit says what was parsed");
  require(std::ranges::equal(again.payload, packet.payload), "what we emit carries the payload");
}

}  // namespace

void check_frame(std::span<const std::byte> frame) {
  Packet packet;
  const wire::ParseOutcome outcome = wire::parse_frame(frame, packet);
  require(static_cast<size_t>(outcome.reason) < kCounterCount, "the reason is a counter");
  if (outcome.result != wire::ParseResult::kRoce) return;
  check_parsed(packet, frame);
  check_icrc(packet);
  require(!wire::to_text(packet).empty(), "a packet has a text");
  check_emitted(packet);
}

}  // namespace uroce::fuzz
