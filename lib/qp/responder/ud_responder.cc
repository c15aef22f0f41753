// Decision: a datagram without a receive that fits is dropped, and the receive stays. A stranger cannot use
// up receives.
#include "qp/responder/ud_responder.h"

#include <array>
#include <span>

#include "base/values/contract.h"
#include "qp/connection/completion_report.h"
#include "qp/connection/packet_checks.h"
#include "qp/responder/inbound_message.h"
#include "wire/service_level.h"

namespace uroce::qp {

namespace {

constexpr uint32_t kIpv4Bytes = 20;
constexpr std::array<std::byte, kDatagramHeaderBytes - kIpv4Bytes> kZeros{};

}  // namespace

void UdResponder::receive(const wire::Packet& packet, Turn& turn) {
  UROCE_ASSERT(!packet.row->response && !connection_.connected);
  const Counter reason =
      reason_to_drop_datagram(packet, connection_.attributes.qkey, connection_.mtu, connection_.receives);
  if (reason != Counter::kCount) return turn.counters.add(reason);
  if (!place(packet, turn)) return fail(turn);
  turn.counters.add(Counter::kRequestsExecuted);
  received_.add(packet.payload.size());
  queue::Completion completion =
      completion_of(InboundMessage::Kind::kSend, packet,
                    kDatagramHeaderBytes + static_cast<uint32_t>(packet.payload.size()));
  add_immediate(packet, completion);
  completion.remote = packet.headers.deth.source;
  completion.has_grh = true;
  completion.service_level = wire::service_level_of(packet);
  completion.vlan_tci = packet.vlan_tci;
  completion.pkey_index = connection_.attributes.pkey_index;
  report_receive(connection_, turn, completion);
}

bool UdResponder::place(const wire::Packet& packet, Turn& turn) {
  const std::span<const queue::Segment> segments =
      connection_.receives.segments(connection_.receives.current());
  const mem::KeyUser user = connection_.receive_key_user();
  const LocalKeys keys{turn.regions, user, mem::kLocalWrite};
  SegmentCursor cursor;
  // All of it before the first byte is touched.
  if (!cursor.resolve(segments, 0, kDatagramHeaderBytes + packet.payload.size(), keys, turn.range))
    return false;

  turn.placer.next_mark() = mark_of(connection_, InboundMessage::Kind::kSend, true, packet, 0, turn);
  const std::span<const std::byte> zeros =
      std::span<const std::byte>(kZeros).first(packet.ipv4 ? kZeros.size() : 0);
  UROCE_ASSERT(packet.ip_packet.size() >= kDatagramHeaderBytes - zeros.size());  // it was parsed
  const std::span<const std::byte> header = packet.ip_packet.first(kDatagramHeaderBytes - zeros.size());
  uint64_t offset = 0;
  for (const std::span<const std::byte> piece : {zeros, header, packet.payload}) {
    const bool last = offset + piece.size() == kDatagramHeaderBytes + packet.payload.size();
    if (!cursor.resolve(segments, offset, piece.size(), keys, turn.range)) return false;
    if (!piece.empty() && !turn.range.place(turn.placer, piece, last)) [[unlikely]] {
      turn.counters.add(Counter::kMemoryGone);
      return false;
    }
    offset += piece.size();
  }
  UROCE_ASSERT(offset == kDatagramHeaderBytes + packet.payload.size());
  return true;
}

/// Our own receive buffer is at fault: that is for its owner to hear.
void UdResponder::fail(Turn& turn) {
  turn.counters.add(Counter::kLocalProtectionError);
  report_receive(connection_, turn,
                 {.opcode = queue::CompletionOpcode::kReceive,
                  .status = queue::CompletionStatus::kLocalProtectionError});
  connection_.broken = true;
  connection_.failure = Failure::kReceiveMemory;
}

/// A datagram was lost: what was reported of later ones is taken back, as on UC.
void UdResponder::lost(const copy::MessageMark& mark, Turn& turn) {
  UROCE_ASSERT(mark.kind == copy::MessageMark::Kind::kSend);
  turn.counters.add(Counter::kMemoryGone);
  turn.counters.add(Counter::kLocalProtectionError);
  revise_receives(connection_, turn, mark);
  connection_.broken = true;
  connection_.failure = Failure::kReceiveMemory;
}

}  // namespace uroce::qp
