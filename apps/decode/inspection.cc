#include "apps/decode/inspection.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>
#include <utility>

#include "apps/decode/aggregate.h"
#include "apps/decode/cm_text.h"
#include "apps/decode/field_checks.h"
#include "base/counters/counter_texts.h"
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
std::optional<HeaderPlaces> header_places_of(std::span<const std::byte> frame) {
  size_t ip = wire::kEthernetBytes;
  if (frame.size() < ip + 1) return std::nullopt;
  uint16_t type = load_be16(frame.data() + 12);
  if (type == wire::kEtherTypeVlan && frame.size() > ip + wire::kVlanTagBytes) {
    type = load_be16(frame.data() + ip + 2);
    ip += wire::kVlanTagBytes;
  }
  HeaderPlaces places{
      .ip = ip, .udp = ip + wire::kIpv6Bytes, .ipv4 = type == wire::kEtherTypeIpv4, .plain = true};
  if (places.ipv4) {
    if (frame.size() < ip + wire::kIpv4Bytes || load_u8(frame.data() + ip + 9) != wire::kProtocolUdp)
      return std::nullopt;
    const uint16_t fragment = load_be16(frame.data() + ip + 6) & 0x3FFF;
    if ((fragment & 0x1FFF) != 0) return std::nullopt;
    places.udp = ip + std::max<size_t>(wire::kIpv4Bytes, (load_u8(frame.data() + ip) & 0x0Fu) * 4);
    places.plain = load_u8(frame.data() + ip) == 0x45 && fragment == 0;
  } else {
    if (type != wire::kEtherTypeIpv6 || frame.size() < ip + wire::kIpv6Bytes) return std::nullopt;
    if (load_u8(frame.data() + ip + 6) != wire::kProtocolUdp) return std::nullopt;
  }
  return frame.size() < places.udp + wire::kUdpBytes ? std::nullopt : std::optional(places);
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
  Inspection(Lines lines, std::vector<Inspected>& inspected) : lines_(lines), inspected_(inspected) {}

  void inspect(std::span<const std::byte> frame, const Frames::Record& record, uint64_t number) {
    const std::span<const std::byte> captured = frame.first(record.captured);
    const auto places = header_places_of(captured);
    begin(record, number);
    if (!places || load_be16(captured.data() + places->udp + 2) != wire::kRoceUdpPort) return;
    if (record.captured < record.bytes) return inspect_cut(frame, record, *places);
    wire::ParseOutcome outcome = wire::parse_frame(frame, packet_);
    if (outcome.result == wire::ParseResult::kNotRoce) return;
    if (is_right(outcome)) return understood(State::kWhole);
    if (aggregate_.begin(frame, record.captured, *places)) return inspect_segments(record, places->udp);
    if (checksum_is_left(frame, *places)) outcome = parse_without_checksum(frame, places->udp);
    if (outcome.result != wire::ParseResult::kRoce) return malformed(outcome.reason, frame, places->udp);
    understood(is_right(outcome) ? State::kWhole : State::kDamaged);
  }

  /// How many packets there are.
  [[nodiscard]] size_t finish() const { return used_; }

 private:
  enum class State : uint8_t { kWhole, kDamaged, kCut };

  void begin(const Frames::Record& record, uint64_t number) {
    if (used_ == inspected_.size()) inspected_.emplace_back();
    Inspected& one = inspected_[used_++];
    one.kind = Inspected::Kind::kOther;
    one.whole = false;
    one.cm.reset();
    one.text.clear();
    one.findings.clear();
    one.number = number;
    one.segment = 0;
    one.bytes = one.frame_bytes = record.bytes;
    one.truncated = record.captured < record.bytes;
    one.lost_before = record.lost_before;
    one.time_ns = record.time_ns;
  }
  Inspected& newest() { return inspected_[used_ - 1]; }

  /// What is not there was captured as zeros, so nothing can be said of checksums.
  void inspect_cut(std::span<const std::byte> frame, const Frames::Record& record,
                   const HeaderPlaces& places) {
    const bool is_left = checksum_is_left(frame, places);
    if (is_left && aggregate_.begin(frame, record.captured, places))
      return inspect_segments(record, places.udp);
    const wire::ParseOutcome outcome = parse_without_checksum(frame, places.udp);
    if (outcome.result == wire::ParseResult::kNotRoce) return;
    const size_t bth = places.udp + wire::kUdpBytes;
    // Several packets may be in it.
    if (is_left || record.captured < bth + wire::kBthBytes || outcome.result != wire::ParseResult::kRoce ||
        record.captured < bth + packet_.row->header_bytes)
      return too_little();
    understood(State::kCut);
  }

  void inspect_segments(const Frames::Record& record, size_t udp) {
    const uint64_t number = newest().number;
    const uint64_t lost_before = newest().lost_before;
    --used_;
    uint32_t segment = 0;
    const auto begin_segment = [&](size_t bytes) {
      begin(record, number);
      newest().segment = ++segment;
      newest().bytes = static_cast<uint32_t>(bytes);
      newest().lost_before = segment == 1 ? lost_before : 0;
    };
    for (auto frame = aggregate_.next(); !frame.empty(); frame = aggregate_.next()) {
      begin_segment(frame.size());
      const wire::ParseOutcome outcome = wire::parse_frame(frame, packet_);
      if (outcome.result == wire::ParseResult::kRoce) {
        understood(is_right(outcome) ? State::kWhole : State::kDamaged);
      } else {
        malformed(outcome.reason, frame, udp);
      }
    }
    if (!aggregate_.is_cut()) return;
    begin_segment(0);
    too_little();
  }

  [[nodiscard]] bool is_right(const wire::ParseOutcome& outcome) {
    if (outcome.result != wire::ParseResult::kRoce) return false;
    computed_icrc_ = wire::icrc_of(packet_.ip_packet);
    return computed_icrc_ == packet_.icrc;
  }

  wire::ParseOutcome parse_without_checksum(std::span<const std::byte> frame, size_t udp) {
    copy_.assign(frame.begin(), frame.end());
    std::memset(copy_.data() + udp + 6, 0, 2);
    return wire::parse_frame(copy_, packet_);
  }

  void too_little() {
    newest().kind = Inspected::Kind::kCut;
    if (lines_ == Lines::kYes) newest().text = "RoCEv2, of which the capture has too little";
  }

  void malformed(Counter reason, std::span<const std::byte> frame, size_t udp) {
    Inspected& into = newest();
    into.kind = Inspected::Kind::kMalformed;
    into.findings.push_back({rule_of_drop(reason, frame, udp), 0, std::string(texts_of(reason).label)});
    if (lines_ == Lines::kNo) return;
    const size_t bth = udp + wire::kUdpBytes;
    const bool has_opcode = frame.size() > bth && reason != Counter::kDropTransportVersion;
    into.text = fmt::format("malformed RoCEv2{}{}", has_opcode ? ", " : "",
                            has_opcode ? wire::opcode_row({load_u8(frame.data() + bth)}).name : "");
  }

  void understood(State state) {
    Inspected& into = newest();
    take_values(packet_, into);
    if (lines_ == Lines::kYes) into.text = wire::to_text(packet_);
    into.whole = state == State::kWhole;
    if (state == State::kDamaged) {
      into.findings.push_back(
          {Rule::kDropIcrc, 0,
           fmt::format("ICRC 0x{:08x}, and the packet's is 0x{:08x}", __builtin_bswap32(packet_.icrc),
                       __builtin_bswap32(computed_icrc_))});
      return;  // any of its bytes may be the wrong one
    }
    const bool cut = state == State::kCut;
    check_fields(packet_, cut, into.findings);
    if (!cut && packet_.row->opcode.service() == wire::Service::kUd &&
        packet_.headers.bth.destination == kGsi)
      take_datagram(packet_, into);
    if (lines_ == Lines::kYes && into.cm) into.text.append(1, ' ').append(to_text(into.cm->mad));
  }

  const Lines lines_;
  std::vector<Inspected>& inspected_;
  size_t used_ = 0;
  wire::Packet packet_;
  uint32_t computed_icrc_ = 0;
  Aggregate aggregate_;
  std::vector<std::byte> copy_;
};

}  // namespace

void inspect(const Frames& frames, Lines lines, std::vector<Inspected>& inspected) {
  Inspection inspection(lines, inspected);
  uint64_t number = frames.first;
  for (const Frames::Record& record : frames.records)
    inspection.inspect(frames.frame(record), record, number++);
  inspected.resize(inspection.finish());
}

}  // namespace uroce::decode
