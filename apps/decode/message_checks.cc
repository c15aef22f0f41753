#include "apps/decode/message_checks.h"

#include <fmt/format.h>

#include <bit>

namespace uroce::decode {
namespace {

constexpr uint32_t kMtuLeast = 256;

}  // namespace

void check_payload(const Inspected& packet, uint32_t& mtu, Findings& findings) {
  const wire::PayloadRule rule = packet.row->payload;
  if (rule == wire::PayloadRule::kNone || rule == wire::PayloadRule::kEightBytes) return;
  const auto say = [&] {
    findings.push_back({Rule::kPayload, 0,
                        mtu == 0 ? fmt::format("{} bytes in {}, which is no path MTU", packet.payload_bytes,
                                               packet.row->name)
                                 : fmt::format("{} bytes in {}, and the path MTU is {}", packet.payload_bytes,
                                               packet.row->name, mtu)});
  };
  if (rule == wire::PayloadRule::kExactlyMtu) {
    const bool can_be = packet.payload_bytes >= kMtuLeast && std::has_single_bit(packet.payload_bytes);
    if (mtu == 0 && can_be) mtu = packet.payload_bytes;
    if (packet.payload_bytes != mtu) say();
    return;
  }
  if (mtu != 0 && packet.payload_bytes > mtu) say();
}

void check_order(wire::Opcode before, const Inspected& packet, Findings& findings) {
  const wire::OpcodeRow& former = wire::opcode_row(before);
  const bool goes_on = !ends(former.position);
  const bool right =
      goes_on == !begins(packet.row->position) && (!goes_on || former.family == packet.row->family);
  if (!right)
    findings.push_back(
        {Rule::kOrderOfPackets, 0, fmt::format("{} behind {}", packet.row->name, former.name)});
}

void WrittenMessage::receive(const Inspected& packet, bool in_order, Findings& findings) {
  const wire::Position position = packet.row->position;
  if (position == wire::Position::kFirst) {
    whole_ = packet.row->family == wire::Family::kWrite;
    bytes_ = packet.payload_bytes;
    announced_ = packet.reth.length;
    return;
  }
  whole_ = whole_ && in_order && !begins(position) && packet.row->family == wire::Family::kWrite;
  if (!whole_) return;
  bytes_ += packet.payload_bytes;
  if (!ends(position)) return;
  whole_ = false;
  if (bytes_ != announced_)
    findings.push_back({Rule::kAnnouncedLength, 0,
                        fmt::format("the message announced {} bytes and has {}", announced_, bytes_)});
}

}  // namespace uroce::decode
