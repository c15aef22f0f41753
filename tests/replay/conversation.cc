#include "conversation.h"

#include <algorithm>
#include <list>
#include <map>
#include <set>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "reader.h"
#include "wire/frame.h"

namespace uroce::replay {

namespace {

/// Packets to one queue pair from one address.
struct Stream {
  Gid source;
  Gid destination;
  QpNumber number;  // that they are sent to
  std::vector<Packet> packets;

  [[nodiscard]] std::set<uint32_t> psns(bool responses) const {
    std::set<uint32_t> found;
    for (const Packet& packet : packets) {
      if (packet.response() == responses) found.insert(packet.psn().value());
    }
    return found;
  }
};

bool answers(const Stream& answering, const Stream& asking) {
  const std::set<uint32_t> asked = asking.psns(false);
  return std::ranges::any_of(answering.psns(true), [&](uint32_t psn) { return asked.contains(psn); });
}

bool belong_together(const Stream& a, const Stream& b) {
  return a.source == b.destination && a.destination == b.source && (answers(a, b) || answers(b, a));
}

/// Packets that are followed by more of their message are exactly as long as the path MTU. Without any, all
/// that is known is that nothing was longer.
uint32_t path_mtu(const std::vector<Packet>& packets) {
  size_t longest = 0;
  for (const Packet& packet : packets) {
    if (packet.parsed.row->payload == wire::PayloadRule::kExactlyMtu) {
      return static_cast<uint32_t>(packet.parsed.payload.size());
    }
    longest = std::max(longest, packet.parsed.payload.size());
  }
  return longest <= 1024 ? 1024 : 4096;
}

wire::Path path_of(const wire::Packet& packet) {
  wire::Path path;
  path.source_mac = packet.source_mac;
  path.destination_mac = packet.destination_mac;
  path.source = packet.source;
  path.destination = packet.destination;
  path.traffic_class = packet.traffic_class;
  path.hop_limit = packet.hop_limit;
  return path;
}

Conversation make_conversation(const std::string& capture, Stream a, Stream b) {
  Conversation made{.capture = capture};
  if (b.packets.front().parsed.source_mac < a.packets.front().parsed.source_mac) std::swap(a, b);
  made.ends[0] = {a.source, a.packets.front().parsed.source_mac, b.number};
  made.ends[1] = {b.source, b.packets.front().parsed.source_mac, a.number};
  for (Stream* stream : {&a, &b}) {
    for (Packet& packet : stream->packets) made.packets.push_back(std::move(packet));
  }
  std::ranges::sort(made.packets, {}, &Packet::number);
  made.mtu = path_mtu(made.packets);
  return made;
}

}  // namespace

Packet make_packet(Bytes bytes) {
  Packet packet;
  packet.bytes = std::move(bytes);
  if (wire::parse_frame(packet.bytes, packet.parsed).result != wire::ParseResult::kRoce) return {};
  if (!wire::icrc_matches(packet.parsed)) throw std::runtime_error("a frame with a wrong ICRC");
  return packet;
}

Packet rewritten(const Packet& packet, const wire::Headers& headers, std::span<const std::byte> payload) {
  const wire::FrameTemplate frame_template(path_of(packet.parsed));
  const auto payload_bytes = static_cast<uint32_t>(payload.size());
  Bytes bytes(wire::frame_bytes(frame_template, headers.bth.opcode, payload_bytes));
  std::ranges::copy(payload, wire::write_headers(bytes, frame_template, headers, payload_bytes));
  wire::finish_frame(bytes, frame_template, headers.bth.opcode, payload_bytes);
  Packet made = make_packet(std::move(bytes));
  made.number = packet.number;
  made.time = packet.time;
  return made;
}

std::vector<Conversation> conversations_of(const std::filesystem::path& file) {
  std::map<std::tuple<Gid, Gid, QpNumber>, Stream> streams;
  size_t number = 0;
  for (captures::Record& record : captures::records(file)) {
    Packet packet = make_packet(std::move(record.frame));
    packet.number = ++number;
    packet.time = {record.time_ns};
    if (packet.bytes.empty() || packet.parsed.row->opcode.service() != wire::Service::kRc) continue;
    const wire::Packet& parsed = packet.parsed;
    const QpNumber to = parsed.headers.bth.destination;
    Stream& stream = streams[{parsed.source, parsed.destination, to}];
    stream = {parsed.source, parsed.destination, to, std::move(stream.packets)};
    stream.packets.push_back(std::move(packet));
  }
  std::list<Stream> left;
  for (auto& [key, stream] : streams) left.push_back(std::move(stream));
  std::vector<Conversation> found;
  while (!left.empty()) {
    Stream first = std::move(left.front());
    left.pop_front();
    const auto second =
        std::ranges::find_if(left, [&](const Stream& other) { return belong_together(first, other); });
    if (second == left.end()) throw std::runtime_error(file.string() + ": a stream without its other half");
    found.push_back(make_conversation(file.stem().string(), std::move(first), std::move(*second)));
    left.erase(second);
  }
  return found;
}

}  // namespace uroce::replay
