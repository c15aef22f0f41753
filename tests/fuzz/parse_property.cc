#include "parse_property.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <vector>

#include "wire/cm_message.h"
#include "wire/frame.h"
#include "wire/icrc/icrc.h"
#include "wire/ip_cm.h"
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

/// Whether all bits of `part` are in `whole`.
bool bits_inside(std::span<const std::byte> part, std::span<const std::byte> whole) {
  return std::ranges::equal(part, whole,
                            [](std::byte one, std::byte other) { return (one & ~other) == std::byte{0}; });
}

void check_ip_cm(std::span<const std::byte> data) {
  const std::optional<wire::IpCmHeader> header = wire::parse_ip_cm(data);
  if (!header) return;
  std::array<std::byte, wire::kIpCmBytes> once;
  std::array<std::byte, wire::kIpCmBytes> twice;
  once.fill(std::byte{0xFF});
  twice.fill(std::byte{0});
  wire::write_ip_cm(once.data(), *header);
  const std::optional<wire::IpCmHeader> again = wire::parse_ip_cm(once);
  require(again.has_value(), "the addresses that we write are read");
  wire::write_ip_cm(twice.data(), *again);
  require(once == twice, "the addresses that we write are those that were read");
  require(bits_inside(once, data.first(once.size())), "no bit is added to addresses");
}

}  // namespace

void check_mad(std::span<const std::byte> bytes) {
  constexpr uint64_t kNone = 0x5EED;
  wire::CmMad mad{.transaction_id = kNone};
  const wire::CmParse result = wire::parse_cm(bytes, mad);
  if (result != wire::CmParse::kOk)
    return require(mad.transaction_id == kNone, "only a message sets anything");

  std::array<std::byte, wire::kMadBytes> once;
  std::array<std::byte, wire::kMadBytes> twice;
  once.fill(std::byte{0xFF});
  twice.fill(std::byte{0});
  wire::write_cm(once.data(), mad);
  wire::CmMad again;
  require(wire::parse_cm(once, again) == wire::CmParse::kOk, "the message that we write is read");
  require(again.message.index() == mad.message.index(), "it is of the same kind");
  require(again.transaction_id == mad.transaction_id && again.ece_options == mad.ece_options,
          "its head says the same");
  wire::write_cm(twice.data(), again);
  require(once == twice, "the message that we write is the one that was read");
  require(bits_inside(once, bytes), "no bit is added to a message");
  if (const auto* req = std::get_if<wire::CmReq>(&mad.message)) check_ip_cm(req->private_data);
  if (const auto* req = std::get_if<wire::CmSidrReq>(&mad.message)) check_ip_cm(req->private_data);
}

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
