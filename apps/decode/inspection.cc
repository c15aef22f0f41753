#include "apps/decode/inspection.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>
#include <utility>

#include "apps/decode/cm_text.h"
#include "apps/decode/field_checks.h"
#include "base/counter_texts.h"
#include "wire/big_endian.h"
#include "wire/header_sizes.h"
#include "wire/mad.h"
#include "wire/packet.h"
#include "wire/print.h"
#include "wire/vlan.h"

namespace uroce::decode {
namespace {

using wire::load_be16;
using wire::load_u8;

constexpr QpNumber kGsi{1};
constexpr uint8_t kCmClass = 7;

/// Where a frame has its UDP header, if its headers say that it has one; null, too, where it is a later
/// fragment.
std::optional<size_t> udp_header_of(std::span<const std::byte> frame) {
  size_t at = wire::kEthernetBytes;
  if (frame.size() < at + 1) return std::nullopt;
  uint16_t type = load_be16(frame.data() + 12);
  if (type == wire::kEtherTypeVlan && frame.size() > at + wire::kVlanTagBytes) {
    type = load_be16(frame.data() + at + 2);
    at += wire::kVlanTagBytes;
  }
  if (type == wire::kEtherTypeIpv4) {
    if (frame.size() < at + wire::kIpv4Bytes || load_u8(frame.data() + at + 9) != wire::kProtocolUdp)
      return std::nullopt;
    if ((load_be16(frame.data() + at + 6) & 0x1FFF) != 0) return std::nullopt;
    at += std::max<size_t>(wire::kIpv4Bytes, (load_u8(frame.data() + at) & 0x0Fu) * 4);
  } else {
    if (type != wire::kEtherTypeIpv6 || frame.size() < at + wire::kIpv6Bytes) return std::nullopt;
    if (load_u8(frame.data() + at + 6) != wire::kProtocolUdp) return std::nullopt;
    at += wire::kIpv6Bytes;
  }
  return frame.size() < at + wire::kUdpBytes ? std::nullopt : std::optional(at);
}

Rule rule_of_drop(Counter reason, std::span<const std::byte> frame, size_t udp) {
  switch (reason) {
    case Counter::kDropIpHeader:
    case Counter::kDropIpChecksum:
    case Counter::kDropFragment:
    case Counter::kDropUdpChecksum:
      return Rule::kDropIp;
    case Counter::kDropTransportVersion:
    case Counter::kDropOpcode:
      return Rule::kDropTransport;
    case Counter::kDropPayloadLength: {
      // Of a message's packets, what the path MTU is about; of all others, what their headers are about.
      if (frame.size() <= udp + wire::kUdpBytes) return Rule::kDropLengths;
      const wire::OpcodeRow& row = wire::opcode_row({load_u8(frame.data() + udp + wire::kUdpBytes)});
      const bool of_a_message =
          row.payload != wire::PayloadRule::kNone && row.payload != wire::PayloadRule::kEightBytes;
      if (row.family == wire::Family::kAtomicWrite) return Rule::kAtomicWrite;
      return of_a_message ? Rule::kPayload : Rule::kDropLengths;
    }
    default:
      return Rule::kDropLengths;
  }
}

/// The frame, or a copy without a checksum of UDP where the capture has cut it: zeros stand for what is
/// missing.
std::span<const std::byte> to_parse(std::span<const std::byte> frame, size_t udp, bool cut,
                                    std::vector<std::byte>& copy) {
  if (!cut) return frame;
  copy.assign(frame.begin(), frame.end());
  std::memset(copy.data() + udp + 6, 0, 2);
  return copy;
}

void take_values(const wire::Packet& packet, Inspected& into) {
  into.kind = Inspected::Kind::kRoce;
  into.ipv4 = packet.ipv4;
  into.ip_identification = packet.ipv4 ? load_be16(packet.ip_packet.data() + 4) : uint16_t{0};
  into.payload_bytes = static_cast<uint32_t>(packet.payload.size());
  into.icrc = packet.icrc;
  into.row = packet.row;
  into.source = packet.source;
  into.destination = packet.destination;
  into.bth = packet.headers.bth;
  into.aeth = packet.headers.aeth;
  into.reth = packet.headers.reth;
  if (packet.row->headers.has(wire::Header::kAtomicEth))
    into.reth = {packet.headers.atomic.address, packet.headers.atomic.rkey, 8};
  into.source_qp = packet.headers.deth.source;
}

void take_datagram(const wire::Packet& packet, Inspected& into) {
  const std::span<const std::byte> payload = packet.payload;
  const auto header = wire::parse_mad_header(payload);
  if (!header) {
    into.findings.push_back(
        {Rule::kCmDatagram, 0, fmt::format("a datagram of {} bytes to queue pair 1", payload.size())});
    return;
  }
  if (header->management_class != kCmClass) return;
  auto datagram = std::make_unique<CmDatagram>();
  if (wire::parse_cm(payload, datagram->mad) != wire::CmParse::kOk) {
    into.findings.push_back(
        {Rule::kCmDatagram, 0,
         fmt::format("base version {}, class version {}, method 0x{:02x}, attribute 0x{:04x} are none of it",
                     header->base_version, header->class_version, header->method, header->attribute)});
    return;
  }
  if (packet.headers.deth.qkey != wire::kGsiQkey)
    into.findings.push_back({Rule::kCmDatagram, 0, fmt::format("Q_Key 0x{:08x}", packet.headers.deth.qkey)});
  std::array<std::byte, wire::kMadBytes> written{};
  wire::write_cm(written.data(), datagram->mad);
  datagram->reserved_is_zero = std::ranges::equal(written, payload);
  into.cm = std::move(datagram);
}

/// Frames of one call, with what it keeps from one to the next.
class Inspection {
 public:
  explicit Inspection(Lines lines) : lines_(lines) {}

  void inspect(std::span<const std::byte> frame, const Frames::Record& record, Inspected& into) {
    const std::span<const std::byte> captured = frame.first(record.captured);
    const bool cut = record.captured < record.bytes;
    const auto udp = udp_header_of(captured);
    if (!udp || load_be16(captured.data() + *udp + 2) != wire::kRoceUdpPort) return;
    const wire::ParseOutcome outcome = wire::parse_frame(to_parse(frame, *udp, cut, copy_), packet_);
    if (outcome.result == wire::ParseResult::kNotRoce) return;
    const size_t headers = *udp + wire::kUdpBytes + wire::kBthBytes;
    if (cut && (record.captured < headers || outcome.result != wire::ParseResult::kRoce ||
                record.captured < headers - wire::kBthBytes + packet_.row->header_bytes)) {
      into.kind = Inspected::Kind::kCut;
      if (lines_ == Lines::kYes) into.text = "RoCEv2, of which the capture has too little";
      return;
    }
    if (outcome.result == wire::ParseResult::kDropped) return malformed(outcome.reason, frame, *udp, into);
    understood(cut, into);
  }

 private:
  void malformed(Counter reason, std::span<const std::byte> frame, size_t udp, Inspected& into) const {
    into.kind = Inspected::Kind::kMalformed;
    into.findings.push_back({rule_of_drop(reason, frame, udp), 0, std::string(texts_of(reason).label)});
    if (lines_ == Lines::kNo) return;
    const size_t bth = udp + wire::kUdpBytes;
    const bool has_opcode = frame.size() > bth && reason != Counter::kDropTransportVersion;
    into.text = fmt::format("malformed RoCEv2{}{}", has_opcode ? ", " : "",
                            has_opcode ? wire::opcode_row({load_u8(frame.data() + bth)}).name : "");
  }

  void understood(bool cut, Inspected& into) {
    take_values(packet_, into);
    if (lines_ == Lines::kYes) into.text = wire::to_text(packet_);
    if (!cut) {
      const uint32_t computed = wire::icrc_of(packet_.ip_packet);
      into.whole = computed == packet_.icrc;
      if (!into.whole) {
        into.findings.push_back({Rule::kDropIcrc, 0,
                                 fmt::format("ICRC 0x{:08x}, and the packet's is 0x{:08x}",
                                             __builtin_bswap32(packet_.icrc), __builtin_bswap32(computed))});
        return;  // any of its bytes may be the wrong one
      }
    }
    check_fields(packet_, cut, into.findings);
    if (!cut && packet_.row->opcode.service() == wire::Service::kUd &&
        packet_.headers.bth.destination == kGsi)
      take_datagram(packet_, into);
    if (lines_ == Lines::kYes && into.cm) into.text.append(1, ' ').append(to_text(into.cm->mad));
  }

  const Lines lines_;
  wire::Packet packet_;
  std::vector<std::byte> copy_;
};

}  // namespace

void inspect(const Frames& frames, Lines lines, std::vector<Inspected>& inspected) {
  inspected.resize(frames.records.size());
  Inspection inspection(lines);
  uint64_t number = frames.first;
  for (size_t i = 0; i < frames.records.size(); ++i) {
    const Frames::Record& record = frames.records[i];
    Inspected& one = inspected[i];
    one.kind = Inspected::Kind::kOther;
    one.whole = false;
    one.cm.reset();
    one.text.clear();
    one.findings.clear();
    one.number = number++;
    one.bytes = record.bytes;
    one.time_ns = record.time_ns;
    inspection.inspect(frames.frame(record), record, one);
  }
}

}  // namespace uroce::decode
