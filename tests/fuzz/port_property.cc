#include "port_property.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <vector>

#include "choices.h"
#include "net/arp.h"
#include "net/demux.h"
#include "net/derived_mac.h"
#include "net/echo.h"
#include "net/links.h"
#include "net/neighbour_discovery.h"
#include "net/vlan_tag.h"
#include "tests/unit/net/outbox.h"
#include "wire/big_endian.h"
#include "wire/flow.h"
#include "wire/frame.h"
#include "wire/internet_checksum.h"
#include "wire/print.h"

namespace uroce::fuzz {
namespace {

using Frame = std::vector<std::byte>;

constexpr MacAddress kMac{{2, 0, 0, 0, 0, 1}};
constexpr MacAddress kFixedMac{{2, 0, 0, 0, 0, 0xF}};
constexpr uint16_t kVlan = 7;
constexpr size_t kNeighbours = 16;

void require(bool holds, const char* what) {
  if (!holds) throw std::logic_error(what);
}

Gid ipv4(uint32_t last) { return Gid::from_ipv4({192, 0, 2, static_cast<uint8_t>(last)}); }
Gid ipv6(uint32_t last) {
  Gid gid;
  gid.bytes = {0x20, 0x01, 0x0D, 0xB8};
  gid.bytes[15] = static_cast<uint8_t>(last);
  return gid;
}
Gid in_vlan(uint32_t last) { return Gid::from_ipv4({198, 51, 100, static_cast<uint8_t>(last)}); }

/// Our addresses end in 1, the configured neighbour's in 15.
struct Addresses {
  std::vector<Gid> gids{ipv4(1), ipv6(1), in_vlan(1)};
  std::vector<uint16_t> vlans{0, 0, kVlan};
};

class Target {
 public:
  explicit Target(Choices& choices) : choices_(choices) {}

  void step();
  [[nodiscard]] PortDepth depth() const { return depth_; }

 private:
  void receive(const Frame& frame);
  void own_call();
  void compare_with_cache(const Frame& frame, const net::Classified& expected, const wire::Packet& packet);
  void receive_neighbour(const Frame& frame);
  void receive_echo(const Frame& frame);
  void check_fixed();

  // Frames of the peers' making.
  Frame any_frame();
  Frame any_arp();
  Frame any_discovery();
  Frame any_roce();
  Frame any_echo();
  void spoil(Frame& frame);
  [[nodiscard]] uint32_t any_host() {
    return choices_.below(4) == 0 ? 1 + choices_.below(255) : 1 + choices_.below(20);
  }
  [[nodiscard]] MacAddress any_mac() {
    if (choices_.once_in(16))
      return choices_.once_in(2) ? kMac : MacAddress{{0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF}};
    return {{2, 1, 0, 0, 0, static_cast<uint8_t>(choices_.below(256))}};
  }
  [[nodiscard]] MacAddress to_us() { return choices_.once_in(16) ? any_mac() : kMac; }

  Choices& choices_;
  const Addresses addresses_;
  net::GidTable gids_{kMac, addresses_.gids, addresses_.vlans};
  net::Demux demux_{kMac, gids_};
  net::Links links_{{{.mac = kMac,
                      .addresses = {{ipv4(1), 24}, {ipv6(1), 64}},
                      .fixed = {{ipv4(15), kFixedMac}},
                      .capacity = kNeighbours,
                      .probe = true},
                     {.mac = kMac, .vlan = kVlan, .addresses = {{in_vlan(1), 24}}, .capacity = kNeighbours}}};
  uroce::testing::Outbox outbox_;
  wire::FlowCache flow_;
  Instant now_{1'000'000'000};
  Frame last_;
  PortDepth depth_;
};

void Target::step() {
  switch (choices_.below(8)) {
    case 0:
      return own_call();
    case 1:
      // A frame of the flow that was seen last, a little changed.
      if (last_.empty()) return;
      spoil(last_);
      return receive(Frame(last_));
    default:
      last_ = any_frame();
      return receive(Frame(last_));
  }
}

void Target::own_call() {
  switch (choices_.below(4)) {
    case 0:
      now_ = now_ + milliseconds(int64_t{1} << choices_.below(20));
      break;
    case 1:
      now_ = now_ + microseconds(1);
      break;
    default: {
      MacAddress mac;
      const bool tagged = choices_.once_in(4);
      const uint32_t host = any_host();
      static_cast<void>(links_.of(tagged ? kVlan : 0)
                            .find_mac(tagged                ? in_vlan(host)
                                      : choices_.once_in(2) ? ipv6(host)
                                                            : ipv4(host),
                                      now_, mac));
      break;
    }
  }
  links_.pump(now_, outbox_.batch());
  const std::vector<Frame> sent = outbox_.take();
  require(sent.size() <= 2 * (net::Neighbours::kQuestionsMax + addresses_.gids.size()),
          "questions have their rate");
  check_fixed();
}

void Target::receive(const Frame& frame) {
  wire::Packet packet;
  const net::Classified classified = demux_.classify(frame, packet);
  ++depth_.classified[static_cast<size_t>(classified.kind)];
  compare_with_cache(frame, classified, packet);
  const Instant questions = links_.deadline();
  switch (classified.kind) {
    case net::FrameKind::kRoce:
      flow_.learn(packet);
      break;
    case net::FrameKind::kNeighbour:
      receive_neighbour(frame);
      break;
    case net::FrameKind::kEcho:
      receive_echo(frame);
      break;
    case net::FrameKind::kGroup:
    case net::FrameKind::kDropped:
      break;
  }
  require(links_.deadline() >= questions, "a peer's frame makes no resolver ask");
  check_fixed();
}

void Target::compare_with_cache(const Frame& frame, const net::Classified& expected,
                                const wire::Packet& packet) {
  const size_t ip_bytes = flow_.match(frame);
  if (ip_bytes == 0) return;
  ++depth_.hits;
  wire::Packet cached;
  const wire::ParseOutcome outcome = flow_.parse_hit(frame, ip_bytes, cached);
  if (outcome.result != wire::ParseResult::kRoce) {
    require(expected.kind == net::FrameKind::kDropped && expected.reason == outcome.reason,
            "what a hit drops is dropped for the same reason");
    return;
  }
  require(expected.kind == net::FrameKind::kRoce, "a hit is for us");
  require(wire::to_text(cached) == wire::to_text(packet), "a hit has the same headers");
  require(static_cast<const wire::Flow&>(cached).source_mac == packet.source_mac &&
              cached.destination_mac == packet.destination_mac && cached.source == packet.source &&
              cached.destination == packet.destination && cached.traffic_class == packet.traffic_class &&
              cached.hop_limit == packet.hop_limit && cached.udp_source_port == packet.udp_source_port &&
              !packet.has_vlan && packet.ipv4,
          "a hit has the same flow");
  require(cached.payload.data() == packet.payload.data() && cached.payload.size() == packet.payload.size() &&
              cached.ip_packet.data() == packet.ip_packet.data() &&
              cached.ip_packet.size() == packet.ip_packet.size() && cached.icrc == packet.icrc,
          "a hit has the same bytes");
}

void Target::receive_neighbour(const Frame& frame) {
  const Gid watched = ipv4(16);
  const bool known = links_.of(0).lookup(watched, now_).has_value();
  static_cast<void>(links_.receive(frame, now_, outbox_.batch()));
  static_cast<void>(links_.take_conflict());
  depth_.learned += !known && links_.of(0).lookup(watched, now_) ? 1 : 0;
  const std::vector<Frame> sent = outbox_.take();
  require(sent.size() <= 1, "a frame is answered once at most");
  for (const Frame& answer : sent) {
    ++depth_.answered;
    require(std::memcmp(answer.data() + 6, kMac.bytes.data(), 6) == 0, "an answer is ours");
    wire::Packet packet;
    require(demux_.classify(answer, packet).kind != net::FrameKind::kRoce, "an answer is no RoCE");
    Frame untagged = answer;
    if (wire::load_be16(answer.data() + 12) == wire::kEtherTypeVlan)
      untagged.erase(untagged.begin() + 12, untagged.begin() + 16);
    const auto arp = net::parse_arp(untagged);
    require(arp || net::parse_discovery(untagged), "an answer is right");
    require(!arp || arp->sender_mac == kMac, "an answer says our MAC");
  }
}

void Target::receive_echo(const Frame& frame) {
  Frame reply(choices_.once_in(4) ? choices_.below(256) : 2048);
  const uint32_t length = net::echo_reply(frame, gids_, reply);
  require(length <= reply.size() && length <= frame.size(), "a reply is no longer than its request");
  if (length == 0) return;
  ++depth_.echoes;
  require(std::memcmp(reply.data(), frame.data() + 6, 6) == 0, "a reply goes to the resolver");
  require(std::memcmp(reply.data() + 6, kMac.bytes.data(), 6) == 0, "a reply is ours");
  reply.resize(length);
  require(!net::looks_like_echo(reply, 0) && !net::looks_like_echo(reply, wire::kVlanTagBytes),
          "a reply is no request: two of us do not keep each other busy");
}

void Target::check_fixed() {
  require(links_.of(0).lookup(ipv4(15), now_) == kFixedMac, "a configured neighbour stays");
  require(links_.of(0).lookup(ipv4(1), now_) == kMac, "our own address is ours");
}

Frame Target::any_frame() {
  Frame frame;
  switch (choices_.below(8)) {
    case 0:
    case 1:
      frame = any_arp();
      break;
    case 2:
    case 3:
      frame = any_discovery();
      break;
    case 4:
      frame = any_echo();
      break;
    case 5: {
      frame.resize(choices_.below(200));
      for (std::byte& byte : frame) byte = static_cast<std::byte>(choices_.below(256));
      return frame;
    }
    default:
      frame = any_roce();
      break;
  }
  if (choices_.once_in(8)) {
    const auto length = static_cast<uint32_t>(frame.size());
    frame.resize(frame.size() + wire::kVlanTagBytes);
    net::put_tag(frame, length, choices_.once_in(4) ? static_cast<uint16_t>(choices_.below(1 << 16)) : kVlan);
  }
  if (choices_.once_in(4)) spoil(frame);
  return frame;
}

Frame Target::any_arp() {
  Frame frame(net::kArpFrameBytes);
  const bool tagged = choices_.once_in(8);
  const auto host = [&] { return tagged ? in_vlan(any_host()) : ipv4(any_host()); };
  const net::ArpMessage message{.reply = choices_.once_in(2),
                                .sender_mac = any_mac(),
                                .sender = host(),
                                .target_mac = kMac,
                                .target = choices_.once_in(4) ? host() : ipv4(1)};
  net::write_arp(frame, message,
                 choices_.once_in(2) ? MacAddress{{0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF}} : to_us());
  return frame;
}

Frame Target::any_discovery() {
  Frame frame(net::kDiscoveryFrameBytes);
  net::DiscoveryMessage message{.advertisement = choices_.once_in(2),
                                .source_mac = any_mac(),
                                .destination_mac = kMac,
                                .source = choices_.once_in(8) ? Gid{} : ipv6(any_host()),
                                .destination = ipv6(1),
                                .target = choices_.once_in(2) ? ipv6(1) : ipv6(any_host()),
                                .link_address = {}};
  if (choices_.once_in(2)) message.link_address = any_mac();
  if (choices_.once_in(2)) {
    message.destination = net::solicited_node(message.target);
    message.destination_mac = net::multicast_mac(message.destination);
  }
  message.solicited = choices_.once_in(2);
  message.override = choices_.once_in(2);
  frame.resize(net::write_discovery(frame, message));
  return frame;
}

Frame Target::any_echo() {
  const size_t data = choices_.below(64);
  Frame frame(14 + 20 + 8 + data);
  std::memcpy(frame.data(), to_us().bytes.data(), 6);
  std::memcpy(frame.data() + 6, any_mac().bytes.data(), 6);
  wire::store_be16(frame.data() + 12, 0x0800);
  std::byte* const ip = frame.data() + 14;
  ip[0] = std::byte{0x45};
  wire::store_be16(ip + 2, static_cast<uint16_t>(20 + 8 + data));
  ip[8] = std::byte{64};
  ip[9] = std::byte{1};
  std::memcpy(ip + 12, ipv4(any_host()).bytes.data() + 12, 4);
  std::memcpy(ip + 16, ipv4(1).bytes.data() + 12, 4);
  const auto write_sum = [](std::byte* at, std::span<const std::byte> over) {
    const auto sum = static_cast<uint16_t>(~wire::fold_sum(wire::add_words(over)));
    std::memcpy(at, &sum, sizeof sum);
  };
  write_sum(ip + 10, {ip, 20});
  std::byte* const icmp = ip + 20;
  icmp[0] = std::byte{8};
  for (size_t i = 4; i < 8 + data; ++i) icmp[i] = static_cast<std::byte>(choices_.below(256));
  write_sum(icmp + 2, {icmp, 8 + data});
  return frame;
}

Frame Target::any_roce() {
  const bool is_ipv4 = !choices_.once_in(4);
  const uint32_t host = any_host();
  const wire::Path path{.source_mac = any_mac(),
                        .destination_mac = to_us(),
                        .source = is_ipv4 ? ipv4(host) : ipv6(host),
                        .destination = is_ipv4 ? ipv4(choices_.once_in(8) ? 2 : 1) : ipv6(1),
                        .hop_limit = 64,
                        .udp_source_port = static_cast<uint16_t>(0xC000 + choices_.below(2))};
  const wire::FrameTemplate before(path);
  wire::Headers headers;
  headers.bth.opcode = wire::Opcode::make(wire::Service::kRc, wire::Operation::kSendOnly);
  headers.bth.destination = {17};
  headers.bth.psn = Psn(static_cast<uint32_t>(choices_.below(1 << 16)));
  const uint32_t payload = choices_.below(64);
  Frame frame(wire::frame_bytes(before, headers.bth.opcode, payload));
  wire::write_headers(frame, before, headers, payload);
  wire::finish_frame(frame, before, headers.bth.opcode, payload);
  return frame;
}

/// A few bytes, the length, or what the flow cache takes for the flow's: lengths, identification and
/// checksums.
void Target::spoil(Frame& frame) {
  if (frame.empty()) return;
  const auto size = static_cast<uint32_t>(frame.size());
  switch (choices_.below(4)) {
    case 0:
      frame.resize(choices_.below(size + 1));
      return;
    case 1:
      frame.resize(size + choices_.below(64));
      return;
    case 2: {
      if (size < wire::kPlainHeaderBytes) return;
      std::byte* const ip = frame.data() + 14;
      wire::store_be16(ip + 4, static_cast<uint16_t>(choices_.below(1 << 16)));
      if (choices_.once_in(2)) {
        const uint32_t total = choices_.below(size);
        wire::store_be16(ip + 2, static_cast<uint16_t>(total));
        wire::store_be16(ip + 24, static_cast<uint16_t>(total - 20));
      }
      wire::store_be16(ip + 10, 0);
      const auto sum = static_cast<uint16_t>(~wire::fold_sum(wire::add_words({ip, 20})));
      std::memcpy(ip + 10, &sum, sizeof sum);
      return;
    }
    default:
      for (uint32_t i = 1 + choices_.below(3); i > 0; --i)
        frame[choices_.below(size)] ^= static_cast<std::byte>(1 << choices_.below(8));
      return;
  }
}

}  // namespace

void PortDepth::operator+=(const PortDepth& other) {
  for (size_t i = 0; i < classified.size(); ++i) classified[i] += other.classified[i];
  hits += other.hits;
  answered += other.answered;
  echoes += other.echoes;
  learned += other.learned;
}

PortDepth check_port(std::span<const std::byte> input) {
  Choices choices(input);
  Target target(choices);
  while (!choices.over()) target.step();
  return target.depth();
}

}  // namespace uroce::fuzz
