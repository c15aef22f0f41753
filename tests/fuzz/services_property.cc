#include "services_property.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <set>
#include <stdexcept>
#include <vector>

#include "choices.h"
#include "engine/poller/gsi.h"
#include "net/derived_mac.h"
#include "tests/unit/net/outbox.h"

namespace uroce::fuzz {
namespace {

using wire::CommId;

constexpr MacAddress kMac{{2, 0, 0, 0, 0, 1}};
constexpr wire::ServiceId kService{0x0106'1144};
constexpr uint32_t kHosts = 6;

void require(bool holds, const char* what) {
  if (!holds) throw std::logic_error(what);
}

Gid address(uint32_t last) { return Gid::from_ipv4({192, 0, 2, static_cast<uint8_t>(last)}); }
Gid host(uint32_t number) {
  // The last of them is behind a router.
  return number == kHosts - 1 ? Gid::from_ipv4({8, 8, 8, 8}) : address(10 + number);
}

/// Queue pair 1 of a device without pollers, and its user. Host 0 is a configured neighbour.
class Target final : private engine::ServicesUser {
 public:
  explicit Target(Choices& choices) : choices_(choices) {
    require(services_.agent().listen(kService, {}, kBacklog, 1).ok(), "there is room for a listener");
    services_.pump(now_, outbox_.batch());
  }

  void step();
  void finish();
  [[nodiscard]] ServicesDepth depth() const { return depth_; }

 private:
  static constexpr uint32_t kBacklog = 4;
  static constexpr size_t kConnections = 32;

  void on_event(const cm::Event& event) override;
  void on_resolved(uint64_t, int) override {}

  void receive();
  wire::CmMessage any_message(uint32_t from);
  void take_sent();
  void pump() {
    services_.pump(now_, outbox_.batch());
    take_sent();
  }

  Choices& choices_;
  engine::AddressTable addresses_{kMac, net::GidTable(kMac, std::array{address(1)}), false};
  net::Links links_{{{.mac = kMac,
                      .addresses = {{address(1), 24}},
                      .fixed = {{host(0), {{2, 0, 0, 0, 0, 0xF}}}},
                      .capacity = 16}}};
  uroce::testing::Outbox outbox_;
  engine::Gsi services_{{.mac = kMac,
                         .addresses = addresses_,
                         .links = links_,
                         .agent = {.connections_max = kConnections, .listeners_max = 2}},
                        *this};
  Instant now_{1'000'000'000};
  std::vector<CommId> known_;          // connections that the user has not released
  std::map<uint32_t, CommId> theirs_;  // the peers' names of ours
  std::set<MacAddress> came_from_;     // Ethernet addresses of datagrams
  uint32_t next_own_ = 1;
  ServicesDepth depth_;
};

void Target::on_event(const cm::Event& event) {
  ++depth_.events;
  const bool asks = event.kind == cm::EventKind::kRequest || event.kind == cm::EventKind::kServiceRequest;
  if (asks) known_.push_back(event.id);
  cm::Agent& agent = services_.agent();
  if (event.kind == cm::EventKind::kEstablished) ++depth_.established;
  if (asks && choices_.once_in(8)) return;
  if (event.kind == cm::EventKind::kRequest) {
    theirs_[event.id.value] = std::get<wire::CmReq>(event.mad->message).local;
    static_cast<void>(choices_.once_in(8) ? agent.reject(event.id, wire::RejectReason::kConsumerDefined, {})
                                          : agent.reply(event.id, {.qp = {200}}, 2));
    return;
  }
  const bool over = event.kind != cm::EventKind::kEstablished && event.kind != cm::EventKind::kDisconnected;
  if (!over) return;
  std::erase(known_, event.id);
  agent.release(event.id);
}

wire::CmMessage Target::any_message(uint32_t from) {
  const auto theirs = theirs_.empty()
                          ? theirs_.end()
                          : std::next(theirs_.begin(), choices_.below(static_cast<uint32_t>(theirs_.size())));
  const CommId ours = theirs == theirs_.end() ? CommId{choices_.below(1 << 16)} : CommId{theirs->first};
  const CommId own = theirs == theirs_.end() ? CommId{1} : theirs->second;
  switch (choices_.below(8)) {
    case 0:
      return wire::CmRtu{.local = own, .remote = ours};
    case 1:
      return wire::CmRej{.local = own, .remote = choices_.once_in(2) ? ours : CommId{}};
    case 2:
      return wire::CmDreq{.local = own, .remote = ours, .remote_qp = {200}};
    case 3:
      return wire::CmMra{
          .local = own, .remote = ours, .service_timeout = static_cast<uint8_t>(choices_.below(32))};
    case 4:
      return wire::CmSidrReq{.request = {next_own_++}, .service = {kService.value + choices_.below(2)}};
    default: {
      wire::CmReq req;
      req.local = {choices_.once_in(4) ? 1 + choices_.below(next_own_) : next_own_++};
      req.service = {kService.value + (choices_.once_in(4) ? 1u : 0u)};
      req.qp = {1 + choices_.below(64)};
      req.max_cm_retries = static_cast<uint8_t>(choices_.below(16));
      req.local_cm_response_timeout = static_cast<uint8_t>(choices_.below(32));
      req.primary.ack_timeout = static_cast<uint8_t>(choices_.below(32));
      req.primary.local_gid = host(from);
      req.primary.remote_gid = address(1);
      return req;
    }
  }
}

void Target::receive() {
  const uint32_t from = choices_.below(kHosts);
  std::array<std::byte, wire::kMadBytes + 4> bytes{};
  wire::write_cm(bytes.data(), {choices_.below(4), 0, any_message(from)});
  for (uint32_t i = choices_.once_in(4) ? 1 + choices_.below(3) : 0; i > 0; --i)
    bytes[choices_.below(wire::kMadBytes)] ^= static_cast<std::byte>(1 << choices_.below(8));
  wire::Packet packet;
  packet.source_mac = {{2, 1, 0, 0, 0, static_cast<uint8_t>(choices_.once_in(8) ? choices_.below(4) : from)}};
  if (choices_.once_in(32)) packet.source_mac.bytes[0] |= 1;
  packet.source = choices_.once_in(32) ? Gid::from_ipv4({224, 0, 0, 1}) : host(from);
  packet.destination = address(1);
  packet.headers.bth.opcode = {static_cast<uint8_t>(choices_.once_in(32) ? choices_.below(256) : 0x64)};
  packet.headers.bth.partition_key = choices_.once_in(32) ? uint16_t{0x8001} : uint16_t{0xFFFF};
  packet.headers.deth.qkey = choices_.once_in(32) ? 1 : wire::kGsiQkey;
  packet.payload = std::span(bytes).first(choices_.once_in(32) ? choices_.below(260) : wire::kMadBytes);
  came_from_.insert(packet.source_mac);

  const Instant questions = links_.deadline();
  const auto dropped = services_.receive(packet, now_, outbox_.batch());
  ++(dropped ? depth_.dropped : depth_.received);
  require(outbox_.batch().frames().size() <= 1, "a datagram is answered once at most");
  require(!dropped || outbox_.batch().frames().empty(), "what is dropped is not answered");
  require(links_.deadline() >= questions, "a datagram makes no resolver ask");
  take_sent();
  if (choices_.once_in(4)) pump();
}

void Target::take_sent() {
  for (const std::vector<std::byte>& frame : outbox_.take()) {
    ++depth_.sent;
    wire::Packet packet;
    require(wire::parse_frame(frame, packet).result == wire::ParseResult::kRoce, "what we send parses");
    require(wire::icrc_matches(packet), "what we send has a right ICRC");
    wire::CmMad mad;
    require(wire::parse_cm(packet.payload, mad) == wire::CmParse::kOk, "what we send is a message");
    require(!net::is_multicast(packet.destination_mac), "nothing is sent to a group");
    if (packet.destination == host(0))
      require(packet.destination_mac == MacAddress{{2, 0, 0, 0, 0, 0xF}},
              "a known neighbour gets its answers");
    else
      require(came_from_.contains(packet.destination_mac), "an answer goes where the question came from");
  }
}

void Target::step() {
  switch (choices_.below(8)) {
    case 0:
      now_ = now_ + milliseconds(int64_t{1} << choices_.below(16));
      return pump();
    case 1:
      if (known_.empty()) return;
      if (const CommId id = known_[choices_.below(static_cast<uint32_t>(known_.size()))];
          choices_.once_in(2)) {
        static_cast<void>(services_.agent().disconnect(id, {}));
      } else {
        std::erase(known_, id);
        services_.agent().release(id);
      }
      return pump();
    default:
      return receive();
  }
}

void Target::finish() {
  for (uint32_t i = 0; i < kHosts; ++i) {
    const bool known = links_.of(0).lookup(host(i), now_).has_value();
    // A connection of minutes is ended by a DREQ, which may have to ask when it has no answer.
    require(!known || i == 0, "no neighbour is learned from datagrams");
  }
  require(depth_.sent <= depth_.received * (3 + cm::Agent::kRepeatsMax) + kConnections * 8,
          "a few messages for each datagram");
  while (!known_.empty()) {
    const CommId id = known_.back();
    known_.pop_back();
    services_.agent().release(id);
  }
  constexpr int kTurnsMax = 10'000;  // a DREQ that waits for the link is looked at every millisecond
  for (int turn = 0; services_.agent().connections() > 0; ++turn) {
    require(turn < kTurnsMax, "all of it ends");
    links_.pump(now_, outbox_.batch());
    static_cast<void>(outbox_.take());
    pump();
    now_ = now_ + milliseconds(50);
  }
}

}  // namespace

void ServicesDepth::operator+=(const ServicesDepth& other) {
  received += other.received;
  dropped += other.dropped;
  sent += other.sent;
  events += other.events;
  established += other.established;
}

ServicesDepth check_services(std::span<const std::byte> input) {
  Choices choices(input);
  Target target(choices);
  while (!choices.over()) target.step();
  target.finish();
  return target.depth();
}

}  // namespace uroce::fuzz
