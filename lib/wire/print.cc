#include "wire/print.h"

#include <fmt/format.h>

#include <bit>
#include <iterator>
#include <string_view>

#include "wire/address_text.h"
#include "wire/vlan.h"

namespace uroce::wire {
namespace {

using Output = std::back_insert_iterator<std::string>;

std::string_view nak_name(uint8_t code) {
  switch (static_cast<NakCode>(code)) {
    case NakCode::kSequenceError:
      return "sequence-error";
    case NakCode::kInvalidRequest:
      return "invalid-request";
    case NakCode::kRemoteAccess:
      return "remote-access";
    case NakCode::kRemoteOperational:
      return "remote-operational";
    case NakCode::kInvalidRdRequest:
      return "invalid-rd-request";
  }
  return "unknown";
}

void print_flags(Output out, const Bth& bth) {
  if (bth.ack_request) fmt::format_to(out, " A");
  if (bth.solicited) fmt::format_to(out, " SE");
  if (bth.fecn) fmt::format_to(out, " FECN");
  if (bth.becn) fmt::format_to(out, " BECN");
  if (bth.partition_key != 0xFFFF) fmt::format_to(out, " pkey=0x{:04x}", bth.partition_key);
}

void print_extension(Output out, Header header, const Headers& h) {
  switch (header) {
    case Header::kXrcEth:
      fmt::format_to(out, " srq=0x{:06x}", h.xrc_srq);
      return;
    case Header::kDeth:
      fmt::format_to(out, " deth qkey=0x{:08x} source-qp=0x{:06x}", h.deth.qkey, h.deth.source.value);
      return;
    case Header::kFeth:
      fmt::format_to(out, " feth{}{} {}", h.feth.global_visibility ? " global-visibility" : "",
                     h.feth.persistence ? " persistence" : "", h.feth.whole_region ? "region" : "range");
      return;
    case Header::kReth:
      fmt::format_to(out, " reth va=0x{:x} rkey=0x{:08x} len={}", h.reth.address, h.reth.rkey.value,
                     h.reth.length);
      return;
    case Header::kAtomicEth:
      fmt::format_to(out, " atomic va=0x{:x} rkey=0x{:08x} swap-or-add=0x{:x} compare=0x{:x}",
                     h.atomic.address, h.atomic.rkey.value, h.atomic.swap_or_add, h.atomic.compare);
      return;
    case Header::kAeth:
      fmt::format_to(out, " aeth {} msn={}", to_text(h.aeth), h.aeth.msn);
      return;
    case Header::kAtomicAckEth:
      fmt::format_to(out, " original=0x{:x}", h.atomic_original);
      return;
    case Header::kImmediate:
      fmt::format_to(out, " imm=0x{:08x}", __builtin_bswap32(h.immediate));
      return;
    case Header::kInvalidate:
      fmt::format_to(out, " invalidate=0x{:08x}", h.invalidate.value);
      return;
    case Header::kCnpPadding:
      return;
  }
}

}  // namespace

std::string to_text(const Aeth& aeth) {
  switch (aeth.kind) {
    case AethKind::kAck:
      return fmt::format("ack credits={}", aeth.value);
    case AethKind::kRnrNak:
      return fmt::format("rnr-nak timer={}", aeth.value);
    case AethKind::kReserved:
      return fmt::format("reserved {}", aeth.value);
    case AethKind::kNak:
      return fmt::format("nak {}", nak_name(aeth.value));
  }
  return {};
}

std::string to_text(const Packet& packet) {
  const Bth& bth = packet.headers.bth;
  std::string text;
  const Output out = std::back_inserter(text);
  fmt::format_to(out, "{} {} > {} qp 0x{:06x} psn 0x{:06x}", packet.row->name, to_text(packet.source),
                 to_text(packet.destination), bth.destination.value, bth.psn.value());
  if (packet.has_vlan) fmt::format_to(out, " vlan {}", vlan_of(packet.vlan_tci));
  print_flags(out, bth);
  for (uint32_t left = packet.row->headers.bits(); left != 0; left &= left - 1) {
    print_extension(out, static_cast<Header>(std::countr_zero(left)), packet.headers);
  }
  if (!packet.payload.empty()) fmt::format_to(out, " + {}", packet.payload.size());
  return text;
}

}  // namespace uroce::wire
