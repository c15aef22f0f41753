#include "allowed_differences.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "wire/layers.h"
#include "wire/print.h"

namespace uroce::replay {

namespace {

constexpr std::byte kAckRequest{0x80};
constexpr std::byte kCredits{0x1F};
constexpr size_t kBthFlagsBeforePsn = 8;
constexpr size_t kLengthInReth = 12;  // behind address and key

/// Where the IP header and the BTH begin.
size_t ip_offset(const Packet& packet) {
  return static_cast<size_t>(packet.parsed.ip_packet.data() - packet.bytes.data());
}
size_t bth_offset(const Packet& packet) {
  return ip_offset(packet) + (packet.parsed.ipv4 ? wire::kIpv4Bytes : wire::kIpv6Bytes) + wire::kUdpBytes;
}

void clear(Bytes& bytes, size_t at, size_t count) {
  std::fill_n(bytes.begin() + static_cast<ptrdiff_t>(at), count, std::byte{0});
}

/// The frame without what its sender was free to choose.
Bytes canonical(const Packet& packet, bool ack_request_free) {
  Bytes bytes = packet.bytes;
  const size_t ip = ip_offset(packet);
  if (packet.parsed.ipv4) {
    // The identification of a packet that must not be fragmented has no meaning (RFC 6864).
    clear(bytes, ip + 4, 2);
    // The header checksum covers the identification. Parsing has verified it.
    clear(bytes, ip + 10, 2);
  }
  // The UDP source port is entropy for the paths in between.
  clear(bytes, bth_offset(packet) - wire::kUdpBytes, 2);
  // The ICRC covers both. It was verified when the packet was made.
  clear(bytes, ip + packet.parsed.ip_packet.size(), wire::kIcrcBytes);
  // How many receives are there is an end's own affair.
  if (packet.has_aeth() && packet.aeth().kind == wire::AethKind::kAck)
    bytes[bth_offset(packet) + wire::kBthBytes] &= ~kCredits;
  // When a requester wants to hear in the middle of a message is its own affair.
  if (ack_request_free) bytes[bth_offset(packet) + kBthFlagsBeforePsn] &= ~kAckRequest;
  return bytes;
}

bool ends_message(const Packet& packet) {
  const wire::Position position = packet.parsed.row->position;
  return position == wire::Position::kLast || position == wire::Position::kOnly;
}

std::string text(const std::vector<const Packet*>& packets, size_t at) {
  if (at >= packets.size()) return "nothing";
  const Packet& packet = *packets[at];
  const std::string number = packet.number == 0 ? "" : fmt::format("frame {}: ", packet.number);
  return number + wire::to_text(packet.parsed);
}

}  // namespace

bool same_packet(const Packet& ours, const Packet& captured) {
  // At the end of a message it decides when the request completes: where the kernel asks, we ask.
  const bool asked_at_end = ends_message(captured) && captured.parsed.headers.bth.ack_request;
  const bool free = !captured.response() && !asked_at_end;
  return canonical(ours, free) == canonical(captured, free);
}

bool asks_for_part(const Packet& ours, const Packet& captured) {
  const auto is_read = [](const Packet& packet) {
    return packet.parsed.row->family == wire::Family::kReadRequest;
  };
  if (!is_read(ours) || !is_read(captured)) return false;
  if (ours.parsed.headers.reth.length >= captured.parsed.headers.reth.length) return false;
  const auto without_length = [](const Packet& packet) {
    Bytes bytes = canonical(packet, true);
    clear(bytes, bth_offset(packet) + wire::kBthBytes + kLengthInReth, sizeof(uint32_t));
    return bytes;
  };
  return without_length(ours) == without_length(captured);
}

std::string compare(const std::vector<const Packet*>& captured, const std::vector<const Packet*>& ours,
                    bool part) {
  size_t at = 0;
  for (size_t i = 0; i < captured.size(); ++i) {
    const size_t from = at;
    while (part && at < ours.size() && !same_packet(*ours[at], *captured[i])) ++at;
    if (at == ours.size() || !same_packet(*ours[at], *captured[i])) {
      return fmt::format("the kernel sent {}\n    we sent {}", text(captured, i), text(ours, from));
    }
    ++at;
  }
  if (at == ours.size() || part) return {};
  return fmt::format("the kernel sent nothing more\n    we sent {}", text(ours, at));
}

void leave_out_what_may_be_merged(std::vector<const Packet*>& answers) {
  const Packet* before = nullptr;
  std::erase_if(answers, [&](const Packet* answer) {
    if (answer->parsed.row->family != wire::Family::kAck) return false;
    // A duplicate that came before its original was answered may share the answer.
    if (answer->parsed.row->headers.has(wire::Header::kAtomicAckEth)) {
      const Packet* const last = std::exchange(before, answer);
      return last != nullptr && last->psn() == answer->psn();
    }
    const wire::Aeth& aeth = answer->aeth();
    // An ACK acknowledges everything before it, so the newest can stand for all.
    if (aeth.kind == wire::AethKind::kAck) return true;
    // The packet that a sequence NAK would ask for may have come before the NAK left.
    return aeth.kind == wire::AethKind::kNak &&
           aeth.value == static_cast<uint8_t>(wire::NakCode::kSequenceError);
  });
}

std::optional<Psn> newest_answered(const std::vector<const Packet*>& answers) {
  std::optional<Psn> newest;
  for (const Packet* answer : answers) {
    const bool own = answer->parsed.row->family == wire::Family::kReadResponse ||
                     answer->aeth().kind == wire::AethKind::kAck;
    const Psn psn = own ? answer->psn() : answer->psn() - 1u;
    if (!newest || psn.after(*newest)) newest = psn;
  }
  return newest;
}

}  // namespace uroce::replay
