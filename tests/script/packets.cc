#include "packets.h"

#include <algorithm>

#include "packet_fields.h"
#include "wire/address_text.h"
#include "wire/frame.h"
#include "wire/print.h"

namespace uroce::script {

namespace {

constexpr uint16_t kPartition = 0xFFFF;

}  // namespace

std::string text_of(const Bytes& frame) {
  wire::Packet packet;
  if (wire::parse_frame(frame, packet).result != wire::ParseResult::kRoce)
    return "a frame of " + std::to_string(frame.size()) + " bytes that is no RoCE";
  return wire::to_text(packet);
}

ExpectedPackets::ExpectedPackets(Line& line, Stage& stage, const Actor& actor) {
  Memory& memory = stage.memory();
  row_ = &row_named(line, line.next("name of the packet"), qp::service_of(actor.type));
  if (const auto psn = line.option("psn")) {
    const auto [first, last] = Line::to_range(*psn);
    psn_ = Psn(static_cast<uint32_t>(line.to_number(first)));
    count_ = static_cast<size_t>(Psn(static_cast<uint32_t>(line.to_number(last))) - *psn_ + 1);
  } else {
    line.fail("psn= is missing");
  }
  ack_request_ = line.flag("A");
  solicited_ = line.flag("SE");
  becn_ = line.flag("becn");
  if (const auto bits = line.number("tos")) traffic_class_ = static_cast<uint8_t>(*bits);
  destination_ = {static_cast<uint32_t>(line.number("qp", actor.peer.value))};
  const auto to = line.option("to");
  to_ = to ? wire::parse_ip(*to).value() : actor.attributes.path.destination;
  if (row_->headers.has(wire::Header::kAeth)) {
    const auto aeth = aeth_in(line, has_credits_);
    if (!aeth && row_->family == wire::Family::kAck) line.fail("say ack, nak= or rnr=");
    has_aeth_ = true;
    aeth_ = aeth.value_or(wire::Aeth::ack(0));
  }
  if (row_->headers.has(wire::Header::kFeth)) feth_ = feth_in(line);
  if (row_->headers.has(wire::Header::kXrcEth)) {
    if (const auto srq = line.option("srq")) fields_.push_back({"srq", stage.receives_number(line, *srq)});
  }
  for (const Field& field : fields_of(*row_)) {
    const auto value = value_in(line, memory, field);
    if (value) fields_.push_back({field.name, *value});
  }
  bytes_ = line.number("bytes", 0);
  const auto data = line.option("data");
  for (size_t i = 0; data && i < count_; ++i)
    payloads_.push_back(memory.data(line, *data, i * bytes_, bytes_));
  line.end();
}

std::string ExpectedPackets::compare(const Bytes& frame, size_t index) const {
  wire::Packet packet;
  if (wire::parse_frame(frame, packet).result != wire::ParseResult::kRoce) return "it is no RoCE";
  if (!wire::icrc_matches(packet)) return "its ICRC is wrong";
  for (const std::string& wrong :
       {compare_header(packet, index), compare_fields(packet), compare_payload(packet, index)}) {
    if (!wrong.empty()) return wrong;
  }
  return {};
}

std::string ExpectedPackets::compare_header(const wire::Packet& packet, size_t index) const {
  const wire::Bth& bth = packet.headers.bth;
  if (packet.row != row_) return "it is " + std::string(packet.row->name);
  const Psn psn = *psn_ + static_cast<uint32_t>(index);
  if (bth.psn != psn)
    return "psn is " + std::to_string(bth.psn.value()) + ", expected " + std::to_string(psn.value());
  if (bth.ack_request != ack_request_) return ack_request_ ? "A is not set" : "A is set";
  if (bth.solicited != solicited_) return solicited_ ? "SE is not set" : "SE is set";
  if (bth.migration != is_connected(*row_)) return bth.migration ? "MigReq is set" : "MigReq is not set";
  if (bth.becn != becn_) return becn_ ? "becn is not set" : "becn is set";
  if (traffic_class_ && packet.traffic_class != *traffic_class_)
    return "tos is " + std::to_string(packet.traffic_class);
  if (bth.destination != destination_) return "qp is " + std::to_string(bth.destination.value);
  if (packet.destination != to_) return "it goes to " + wire::to_text(packet.destination);
  if (bth.partition_key != kPartition) return "pkey is " + std::to_string(bth.partition_key);
  if (!has_aeth_) return {};
  const wire::Aeth& aeth = packet.headers.aeth;
  const bool credits_only = aeth.kind == wire::AethKind::kAck && !has_credits_;
  if (aeth.kind != aeth_.kind || (!credits_only && aeth.value != aeth_.value))
    return "it says " + wire::to_text(aeth) + ", expected " + wire::to_text(aeth_);
  return {};
}

std::string ExpectedPackets::compare_fields(const wire::Packet& packet) const {
  for (const Value& expected : fields_) {
    for (const Field& field : fields_of(*row_)) {
      if (expected.name != field.name) continue;
      const uint64_t value = field.get(packet.headers);
      if (value != expected.value)
        return expected.name + " is " + std::to_string(value) + ", expected " +
               std::to_string(expected.value);
    }
  }
  if (row_->headers.has(wire::Header::kFeth)) {
    const wire::Feth& feth = packet.headers.feth;
    if (feth.global_visibility != feth_.global_visibility || feth.persistence != feth_.persistence ||
        feth.whole_region != feth_.whole_region)
      return "it flushes something else";
  }
  return {};
}

std::string ExpectedPackets::compare_payload(const wire::Packet& packet, size_t index) const {
  if (packet.payload.size() != bytes_)
    return "it has " + std::to_string(packet.payload.size()) + " bytes, expected " + std::to_string(bytes_);
  if (payloads_.empty()) return {};
  const Bytes& expected = payloads_[index];
  const auto differ = std::mismatch(expected.begin(), expected.end(), packet.payload.begin());
  if (differ.first == expected.end()) return {};
  return "wrong data from byte " + std::to_string(differ.first - expected.begin()) + " on";
}

}  // namespace uroce::script
