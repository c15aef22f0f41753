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
#include "net/membership_message.h"
#include "net/memberships.h"
#include "net/neighbour_discovery.h"
#include "port_frames.h"
#include "tests/unit/net/membership_messages.h"
#include "tests/unit/net/outbox.h"
#include "wire/big_endian.h"
#include "wire/flow.h"
#include "wire/frame.h"
#include "wire/internet_checksum.h"
#include "wire/print.h"

namespace uroce::fuzz {
namespace {

constexpr MacAddress kFixedMac{{2, 0, 0, 0, 0, 0xF}};
constexpr size_t kNeighbours = 16;

void require(bool holds, const char* what) {
  if (!holds) throw std::logic_error(what);
}

/// Our addresses end in 1, the configured neighbour's in 15.
struct Addresses {
  std::vector<Gid> gids{ipv4(1), ipv6(1), in_vlan(1)};
  std::vector<uint16_t> vlans{0, 0, kVlan};
};

class Target {
 public:
  explicit Target(Choices& choices) : choices_(choices) {
    links_.join(Gid::from_ipv4({239, 1, 2, 3}));
    links_.join(ipv6_group());
  }

  void step();
  [[nodiscard]] PortDepth depth() const { return depth_; }

 private:
  void receive(const Frame& frame);
  void own_call();
  void compare_with_cache(const Frame& frame, const net::Classified& expected, const wire::Packet& packet);
  void receive_neighbour(const Frame& frame);
  void receive_echo(const Frame& frame);
  void receive_query(const Frame& frame);
  void check_sent(const std::vector<Frame>& sent, size_t reports);
  void check_fixed();

  Choices& choices_;
  PortFrames frames_{choices_};
  const Addresses addresses_;
  net::GidTable gids_{kMac, addresses_.gids, addresses_.vlans};
  net::Demux demux_{kMac, gids_};
  net::Links links_{{{.mac = kMac,
                      .addresses = {{ipv4(1), 24}, {ipv6(1), 64}},
                      .fixed = {{ipv4(15), kFixedMac}},
                      .capacity = kNeighbours,
                      .probe = true,
                      .report_groups = true},
                     {.mac = kMac,
                      .vlan = kVlan,
                      .addresses = {{in_vlan(1), 24}},
                      .capacity = kNeighbours,
                      .report_groups = true}}};
  uroce::testing::Outbox outbox_;
  wire::FlowCache flow_;
  static constexpr Instant kBegin{1'000'000'000};
  Instant now_ = kBegin;
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
      frames_.spoil(last_);
      return receive(Frame(last_));
    default:
      last_ = frames_.any_frame();
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
      const uint32_t host = frames_.any_host();
      static_cast<void>(links_.of(tagged ? kVlan : 0)
                            .find_mac(tagged                ? in_vlan(host)
                                      : choices_.once_in(2) ? ipv6(host)
                                                            : ipv4(host),
                                      now_, mac));
      break;
    }
  }
  const size_t reports = links_.pump(now_, outbox_.batch());
  check_sent(outbox_.take(), reports);
  check_fixed();
}

/// Our groups are 4 on the untagged link, with the solicited-node ones, and 2 in the VLAN.
void Target::check_sent(const std::vector<Frame>& sent, size_t reports) {
  require(sent.size() - reports <= 2 * (net::Neighbours::kQuestionsMax + addresses_.gids.size()),
          "questions have their rate");
  size_t read = 0;
  for (Frame frame : sent) {
    if (wire::load_be16(frame.data() + 12) == wire::kEtherTypeVlan)
      frame.erase(frame.begin() + 12, frame.begin() + 16);
    require(!net::looks_like_membership_query(frame), "nothing that we send is a query");
    read += uroce::testing::read_report(frame) ? 1u : 0u;
  }
  require(read == reports, "a report is right");
  depth_.reports += reports;
  constexpr uint64_t kGroups = 6;
  constexpr uint64_t kChangesMax = 7 * kGroups;
  const auto tenths = static_cast<uint64_t>((now_ - kBegin).ns / net::Memberships::kAnswersEvery.ns);
  require(depth_.reports <= kChangesMax + kGroups * (tenths + 1), "reports have their rate");
}

/// What answers a query leaves later.
void Target::receive_query(const Frame& frame) {
  depth_.queries += links_.receive_query(frame, now_) ? 1u : 0u;
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
    case net::FrameKind::kQuery:
      receive_query(frame);
      break;
    case net::FrameKind::kEcho:
      receive_echo(frame);
      break;
    case net::FrameKind::kGroup:
    case net::FrameKind::kDropped:
      break;
  }
  require(classified.kind == net::FrameKind::kQuery || links_.deadline() >= questions,
          "a peer's frame makes no resolver ask");
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

}  // namespace

void PortDepth::operator+=(const PortDepth& other) {
  for (size_t i = 0; i < classified.size(); ++i) classified[i] += other.classified[i];
  hits += other.hits;
  queries += other.queries;
  reports += other.reports;
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
