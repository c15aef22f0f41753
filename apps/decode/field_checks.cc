#include "apps/decode/field_checks.h"

#include <fmt/format.h>

#include <algorithm>

#include "wire/big_endian.h"
#include "wire/print.h"

namespace uroce::decode {
namespace {

using wire::Family;
using wire::Header;
using wire::load_u8;
using wire::Position;

/// Bits that no field has: of the BTH, of XRCETH and DETH one byte, of an AETH's syndrome one bit; and pad
/// bytes.
void check_reserved(const wire::Packet& packet, bool cut, Findings& findings) {
  const wire::OpcodeRow& row = *packet.row;
  const std::byte* const bth = packet.payload.data() - row.header_bytes;
  const auto say = [&](const char* what, uint32_t bits) {
    findings.push_back({Rule::kReservedFields, 0, fmt::format("{} are 0x{:02x}", what, bits)});
  };
  if (const uint8_t bits = load_u8(bth + 4) & 0x3F; bits != 0) say("the six bits behind BECN", bits);
  if (const uint8_t bits = load_u8(bth + 8) & 0x7F; bits != 0)
    say("the seven bits behind the ACK request", bits);
  const std::byte* extension = bth + wire::kBthBytes;
  if (row.headers.has(Header::kXrcEth)) {
    if (const uint8_t bits = load_u8(extension); bits != 0) say("the first eight bits of XRCETH", bits);
    extension += wire::header_bytes(Header::kXrcEth);
  }
  if (row.headers.has(Header::kDeth)) {
    if (const uint8_t bits = load_u8(extension + 4); bits != 0) say("the eight bits behind the Q_Key", bits);
  }
  if (row.headers.has(Header::kAeth)) {
    if (const uint8_t bits = load_u8(extension) & 0x80; bits != 0) say("the first bit of the syndrome", bits);
  }
  if (cut) return;
  const std::byte* const pad = packet.payload.data() + packet.payload.size();
  for (size_t i = 0; i < packet.headers.bth.pad; ++i) {
    if (load_u8(pad + i) != 0) return say("pad bytes", load_u8(pad + i));
  }
}

void check_response(const wire::Packet& packet, Findings& findings) {
  const wire::Bth& bth = packet.headers.bth;
  if (bth.ack_request) findings.push_back({Rule::kAckForm, 0, "a response with the ACK request bit"});
  if (!packet.row->headers.has(Header::kAeth)) return;
  const wire::Aeth& aeth = packet.headers.aeth;
  const bool is_plain_ack = packet.row->opcode.operation() == wire::Operation::kAcknowledge;
  const bool undefined = aeth.kind == wire::AethKind::kReserved ||
                         (aeth.kind == wire::AethKind::kNak &&
                          aeth.value >= static_cast<uint8_t>(wire::NakCode::kInvalidRdRequest));
  if (undefined || (!is_plain_ack && aeth.kind != wire::AethKind::kAck))
    findings.push_back(
        {Rule::kSyndromeKinds, 0, fmt::format("{} in {}", wire::to_text(aeth), packet.row->name)});
}

void check_cnp(const wire::Packet& packet, bool cut, Findings& findings) {
  const wire::Bth& bth = packet.headers.bth;
  if (!bth.becn) findings.push_back({Rule::kCnp, 0, "without BECN"});
  if (bth.psn.value() != 0) findings.push_back({Rule::kCnp, 0, fmt::format("PSN 0x{:06x}", bth.psn.value())});
  if (cut) return;
  const std::span<const std::byte> padding(packet.payload.data() - wire::header_bytes(Header::kCnpPadding),
                                           wire::header_bytes(Header::kCnpPadding));
  if (std::ranges::any_of(padding, [](std::byte byte) { return byte != std::byte{0}; }))
    findings.push_back({Rule::kCnp, 0, "its 16 bytes are not all 0"});
}

void check_addresses(const wire::Packet& packet, Findings& findings) {
  const wire::Headers& headers = packet.headers;
  if (packet.row->headers.has(Header::kAtomicEth) && headers.atomic.address % 8 != 0)
    findings.push_back({Rule::kAtomicAligned, 0, fmt::format("address 0x{:x}", headers.atomic.address)});
  if (packet.row->family == Family::kAtomicWrite &&
      (headers.reth.address % 8 != 0 || headers.reth.length != 8))
    findings.push_back(
        {Rule::kAtomicWrite, 0,
         fmt::format("{} bytes at address 0x{:x}", headers.reth.length, headers.reth.address)});
}

/// Compares what a WRITE or READ announces with what this packet has.
void check_announced(const wire::Packet& packet, Findings& findings) {
  constexpr uint32_t kMessageBytesMax = 1u << 31;
  const wire::OpcodeRow& row = *packet.row;
  if (!row.headers.has(Header::kReth) || row.family == Family::kAtomicWrite || row.family == Family::kFlush)
    return;
  const uint32_t announced = packet.headers.reth.length;
  const auto held = static_cast<uint32_t>(packet.payload.size());
  const auto say = [&](const char* what) {
    findings.push_back(
        {Rule::kAnnouncedLength, 0, fmt::format("{} announces {} bytes and {}", row.name, announced, what)});
  };
  if (announced > kMessageBytesMax) say("a message has at most 2^31");
  if (row.family != Family::kWrite) return;
  if (row.position == Position::kOnly && announced != held) say(fmt::format("has {}", held).c_str());
  if (row.position == Position::kFirst && announced <= held) say("others are to follow");
}

}  // namespace

void check_fields(const wire::Packet& packet, bool cut, Findings& findings) {
  const wire::OpcodeRow& row = *packet.row;
  const wire::Bth& bth = packet.headers.bth;
  check_reserved(packet, cut, findings);
  if ((bth.partition_key & 0x7FFF) == 0)
    findings.push_back({Rule::kDropPartition, 0, fmt::format("partition 0x{:04x}", bth.partition_key)});
  if (row.family == Family::kCnp) return check_cnp(packet, cut, findings);
  if (row.response) check_response(packet, findings);
  const bool ends = (static_cast<uint8_t>(row.position) & static_cast<uint8_t>(Position::kLast)) != 0;
  if (bth.solicited && (!ends || row.response))
    findings.push_back({Rule::kSolicited, 0, fmt::format("the solicited bit in {}", row.name)});
  check_addresses(packet, findings);
  check_announced(packet, findings);
}

}  // namespace uroce::decode
