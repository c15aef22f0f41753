#include "engine/poller/gsi.h"

#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <vector>

#include "virtual_pair.h"

// The communication manager's datagrams between two devices, in virtual time.
namespace uroce::engine {
namespace {

constexpr cm::ServiceId kService{0x0106'1144};

/// A device's user, which answers what comes as rdma_cm does.
class Host final : public ServicesUser {
 public:
  explicit Host(std::shared_ptr<Device> its_device) : device(std::move(its_device)) {}

  void on_event(const cm::Event& event) override {
    events.push_back(event.kind);
    if (event.kind == cm::EventKind::kRequest) {
      EXPECT_EQ(agent->reply(event.id, {.qp = {200}}, 0), 0);
      connection = event.id;
    }
    if (event.kind == cm::EventKind::kReply) {
      EXPECT_EQ(agent->ready_to_use(event.id, {}), 0);
    }
  }
  void on_resolved(uint64_t resolver, int error) override { resolved.emplace_back(resolver, error); }

  template <typename Function>
  void manage(Function function) {
    const auto in_turn = [&](Gsi& services, Instant) { function(*(agent = &services.agent())); };
    EXPECT_EQ(device->manage(*this, in_turn), 0);
  }
  void resolve(const Gid& to, uint64_t resolver, Duration patience = seconds(10)) {
    const auto in_turn = [&](Gsi& services, Instant now) {
      services.resolve(device->gids().at(1), to, resolver, now, now + patience);
    };
    EXPECT_EQ(device->manage(*this, in_turn), 0);
  }
  void listen() {
    manage([](cm::Agent& its_agent) { EXPECT_TRUE(its_agent.listen(kService, {}, 8, 0).ok()); });
  }
  void connect(const Gid& to, uint32_t qp = 100) {
    const cm::Address address{.local = device->gids().at(1), .remote = to};
    wire::CmReq req;
    req.service = kService;
    req.qp = {qp};
    req.primary.local_gid = address.local;
    req.primary.remote_gid = address.remote;
    req.remote_cm_response_timeout = 12;  // 17 ms
    req.max_cm_retries = 3;
    manage([&](cm::Agent& its_agent) { connection = *its_agent.connect(address, req, 0); });
  }
  [[nodiscard]] cm::State state() {
    cm::State state{};
    manage([&](cm::Agent& its_agent) { state = its_agent.state_of(connection); });
    return state;
  }

  const std::shared_ptr<Device> device;
  cm::Agent* agent = nullptr;
  cm::CommId connection;
  std::vector<cm::EventKind> events;
  std::vector<std::pair<uint64_t, int>> resolved;
};

class Services : public ::testing::TestWithParam<uint16_t> {
 protected:
  /// Until `time` has passed.
  void run(Duration time) {
    for (const Instant end = VirtualPair::now() + time; VirtualPair::now() < end;) {
      pair.settle();
      VirtualPair::advance(milliseconds(1));
    }
  }
  [[nodiscard]] Gid right_address() const { return pair.right->gids().at(1); }

  VirtualPair pair{{.pollers = GetParam()}};
  Host left{pair.left};
  Host right{pair.right};
};
INSTANTIATE_TEST_SUITE_P(Pollers, Services, ::testing::Values(1, 2));

TEST_P(Services, ConnectionBetweenDevices_ExpectItSetUpAndEnded) {
  right.listen();
  left.connect(right_address());
  run(milliseconds(3));
  EXPECT_EQ(left.events, std::vector{cm::EventKind::kReply});
  EXPECT_EQ(right.events, (std::vector{cm::EventKind::kRequest, cm::EventKind::kEstablished}));
  EXPECT_EQ(left.state(), cm::State::kEstablished);

  right.manage([&](cm::Agent& agent) { EXPECT_EQ(agent.disconnect(right.connection, {}), 0); });
  run(milliseconds(3));
  EXPECT_EQ(left.events.back(), cm::EventKind::kTimewaitEnded);
  EXPECT_EQ(right.events.back(), cm::EventKind::kTimewaitEnded);
}

TEST_P(Services, ConnectionToOurselves_ExpectItSetUp) {
  left.listen();
  left.connect(pair.left->gids().at(1));
  run(milliseconds(3));
  EXPECT_EQ(left.events,
            (std::vector{cm::EventKind::kRequest, cm::EventKind::kReply, cm::EventKind::kEstablished}));
}

TEST_P(Services, ThousandConnectionsAtOnce_ExpectAllSetUp) {
  right.manage([](cm::Agent& agent) { EXPECT_TRUE(agent.listen(kService, {}, 1000, 0).ok()); });
  for (uint32_t qp = 1; qp <= 1000; ++qp) left.connect(right_address(), qp);
  run(seconds(1));
  EXPECT_EQ(std::ranges::count(right.events, cm::EventKind::kEstablished), 1000);
  EXPECT_EQ(left.events.size(), 1000u);
}

TEST_P(Services, NoHostAtThatAddress_ExpectUnanswered) {
  Gid absent = right_address();
  absent.bytes[15] ^= 0x40;
  left.connect(absent);
  run(seconds(20));
  EXPECT_EQ(left.events, std::vector{cm::EventKind::kUnanswered});
}

TEST_P(Services, TheOtherDeviceIsNotManaged_ExpectUnansweredAndTheReasonCounted) {
  left.connect(right_address());
  run(seconds(1));
  EXPECT_EQ(left.events, std::vector{cm::EventKind::kUnanswered});
  EXPECT_EQ(pair.counter(*pair.right_state, Counter::kDropUnknownQp), 5u);  // four REQs and a REJ
}

TEST_P(Services, AddressesAskedFor_ExpectWhoeverAskedTold) {
  using Answers = std::vector<std::pair<uint64_t, int>>;
  Gid absent = right_address();
  absent.bytes[15] ^= 0x40;
  left.resolve(right_address(), 1);
  left.resolve(pair.left->gids().at(1), 2);
  left.resolve(Gid::from_ipv4({8, 8, 8, 8}), 3);
  EXPECT_EQ(left.resolved, (Answers{{1, 0}, {2, 0}, {3, EHOSTUNREACH}}));
  left.resolved.clear();
  left.resolve(absent, 4);
  left.resolve(absent, 5, milliseconds(100));
  left.resolve(absent, 6);
  EXPECT_EQ(left.device->manage(left, [](Gsi& services, Instant) { services.forget(6); }), 0);
  run(milliseconds(200));
  EXPECT_EQ(left.resolved, (Answers{{5, ETIMEDOUT}}));
  run(seconds(10));
  EXPECT_EQ(left.resolved, (Answers{{5, ETIMEDOUT}, {4, ETIMEDOUT}}));
}

TEST(Gsi, RefusalOfAHostWhoseMacIsUnknown_ExpectItWhereTheRequestCameFrom) {
  VirtualPair strangers{{.right_knows_left = false}};
  Host asking{strangers.left};
  Host refusing{strangers.right};
  refusing.manage([](cm::Agent&) {});
  asking.connect(strangers.right->gids().at(1));
  for (int i = 0; i < 100; ++i) {
    strangers.settle();
    VirtualPair::advance(milliseconds(1));
  }
  EXPECT_EQ(asking.events, std::vector{cm::EventKind::kRejected});
  // The link was never asked, so nothing was learned of it.
  const Gid resolver = strangers.left->gids().at(1);
  EXPECT_EQ(strangers.right_state->links.of(0).lookup(resolver, VirtualPair::now()), std::nullopt);
}

/// A device without pollers of its own that is sent datagrams by hosts that do not exist.
class Strangers : public ::testing::Test {
 protected:
  static MacAddress mac(uint32_t number) {
    return {{2, 1, 0, static_cast<uint8_t>(number >> 16), static_cast<uint8_t>(number >> 8),
             static_cast<uint8_t>(number)}};
  }
  /// On our link, but for the addresses of the pair.
  [[nodiscard]] Gid address(uint32_t number) const {
    Gid gid = ours();
    gid.bytes[15] = static_cast<uint8_t>(3 + number % 200);
    return gid;
  }
  [[nodiscard]] Gid ours() const { return pair.left->gids().at(1); }
  /// In a datagram of the class `datagram_class`, for a connection of `path_class`.
  std::optional<Counter> ask(const Gid& from, MacAddress link, uint32_t number, cm::ServiceId service,
                             uint8_t datagram_class = 0, uint8_t path_class = 0) {
    wire::CmReq req;
    req.local = {number};
    req.service = service;
    req.qp = {number};
    req.max_cm_retries = 15;
    req.primary.local_gid = from;
    req.primary.remote_gid = ours();
    req.primary.traffic_class = path_class;
    std::array<std::byte, wire::kMadBytes> bytes;
    wire::write_cm(bytes.data(), {number, 0, req});
    wire::Packet packet;
    packet.source_mac = link;
    packet.source = from;
    packet.destination = ours();
    packet.traffic_class = datagram_class;
    packet.headers.bth.opcode = {0x64};
    packet.headers.deth.qkey = wire::kGsiQkey;
    packet.payload = bytes;
    return services.receive(packet, VirtualPair::now(), batch);
  }
  /// The traffic classes of what was sent.
  std::vector<uint8_t> sent_classes() {
    std::vector<uint8_t> classes;
    for (const port::TxFrame& frame : batch.frames()) {
      wire::Packet packet;
      EXPECT_EQ(wire::parse_frame({frame.data, frame.length}, packet).result, wire::ParseResult::kRoce);
      classes.push_back(packet.traffic_class);
    }
    sent();
    return classes;
  }
  /// The Ethernet addresses to which something was sent.
  std::vector<MacAddress> sent() {
    std::vector<MacAddress> to;
    for (const port::TxFrame& frame : batch.frames()) {
      MacAddress& one = to.emplace_back();
      std::memcpy(one.bytes.data(), frame.data, one.bytes.size());
    }
    pair.left_state->port->queue(0).free(batch.frames());
    batch.consume(batch.size());
    return to;
  }

  VirtualPair pair;
  Host host{pair.left};
  Gsi services{{.mac = pair.left->mac(),
                .addresses = pair.left_state->addresses,
                .links = pair.left_state->links,
                .agent = {.hold_requests = {}}},
               host};
  port::TxBatch batch{pair.left_state->port->queue(0)};
};

TEST_F(Strangers, RequestsForServicesThatNoProgramHas_ExpectNoQuestionAndNoNeighbour) {
  net::Neighbours& neighbours = pair.left_state->links.of(0);
  for (uint32_t i = 1; i <= 5000; ++i) {
    ask(address(i), mac(i), i, kService);
    EXPECT_EQ(sent(), std::vector{mac(i)}) << "the refusal goes back where the request came from";
    EXPECT_EQ(neighbours.lookup(address(i), VirtualPair::now()), std::nullopt);
  }
  EXPECT_EQ(neighbours.deadline(), kNever) << "no neighbour is asked for";
}

TEST_F(Strangers, ReplyToAHostOffTheLink_ExpectItAtTheRouterThatBroughtTheRequest) {
  host.agent = &services.agent();
  ASSERT_TRUE(services.agent().listen(kService, {}, 8, 0).ok());
  ask(Gid::from_ipv4({8, 8, 8, 8}), mac(9), 1, kService);
  services.pump(VirtualPair::now(), batch);
  EXPECT_EQ(sent(), std::vector{mac(9)});
}

TEST_F(Strangers, NeighbourThatIsKnown_ExpectItsAnswersThereAndNotAtAStranger) {
  ask(pair.right->gids().at(1), mac(9), 1, kService);
  EXPECT_EQ(sent(), std::vector{pair.right->mac()});
}

TEST_F(Strangers, SourcesThatNoHostHas_ExpectNoAnswer) {
  EXPECT_EQ(ask(address(1), {{1, 0, 0x5E, 0, 0, 1}}, 1, kService), Counter::kDropNotOurAddress);
  EXPECT_EQ(ask(address(1), {}, 1, kService), Counter::kDropNotOurAddress);
  EXPECT_EQ(ask(Gid::from_ipv4({224, 0, 0, 1}), mac(1), 1, kService), Counter::kDropNotOurAddress);
  EXPECT_TRUE(sent().empty());
}

/// A switch marks packets, and some adapters say ECT(0) in every datagram.
TEST_F(Strangers, RequestWithEcnBits_ExpectNoneInTheAnswers) {
  host.agent = &services.agent();
  for (const unsigned ecn : {1u, 2u, 3u}) {
    ask(address(1), mac(1), ecn, kService, static_cast<uint8_t>(0x68 | ecn), 0x20);
    EXPECT_EQ(sent_classes(), std::vector<uint8_t>{0x68}) << "a REJ of no connection is of the REQ's class";
  }
  ASSERT_TRUE(services.agent().listen(kService, {}, 8, 0).ok());
  for (const unsigned ecn : {1u, 2u, 3u}) {
    const uint32_t number = 10 + ecn;
    ask(address(number), mac(number), number, kService, static_cast<uint8_t>(0x68 | ecn),
        static_cast<uint8_t>(0x20 | ecn));
    services.pump(VirtualPair::now(), batch);
    EXPECT_EQ(sent_classes(), std::vector<uint8_t>{0x20}) << "a REP is of the class of the primary path";
  }
}

/// What rdma_accept does for a peer that cannot be resolved.
TEST(Gsi, QueuePairForAPeerThatDoesNotAnswer_ExpectNoWaitWhenItsRequestSaidTheWay) {
  VirtualPair pair;
  wire::Path path{.source = pair.left->gids().at(1), .destination = pair.left->gids().at(1)};
  path.destination.bytes[15] ^= 0x40;
  path.destination_mac = {{2, 1, 0, 0, 0, 1}};
  const Instant before = VirtualPair::now();
  bool to_self = true;
  EXPECT_EQ(pair.left_state->resolve(path, to_self), 0);
  EXPECT_FALSE(to_self);
  EXPECT_EQ(path.destination_mac, (MacAddress{{2, 1, 0, 0, 0, 1}}));
  EXPECT_EQ(VirtualPair::now(), before);
  EXPECT_EQ(pair.left_state->links.of(0).deadline(), kNever);
  // A neighbour that is known is where it is.
  path.destination = pair.right->gids().at(1);
  EXPECT_EQ(pair.left_state->resolve(path, to_self), 0);
  EXPECT_EQ(path.destination_mac, pair.right->mac());
}

struct Spoilt {
  const char* what;
  void (*spoil)(wire::Headers&, size_t& payload);
  Counter counter;
};

/// Straight into the services, since no host of ours would send them.
TEST(Gsi, DatagramsThatAreNone_ExpectTheReasonCounted) {
  const Spoilt table[] = {
      {"another opcode", [](wire::Headers& h, size_t&) { h.bth.opcode = {0x65}; }, Counter::kDropService},
      {"RC", [](wire::Headers& h, size_t&) { h.bth.opcode = {0x04}; }, Counter::kDropService},
      {"partition", [](wire::Headers& h, size_t&) { h.bth.partition_key = 0x8001; },
       Counter::kDropPartitionKey},
      {"Q_Key", [](wire::Headers& h, size_t&) { h.deth.qkey = 1; }, Counter::kDropQkey},
      {"too short", [](wire::Headers&, size_t& payload) { payload = 255; }, Counter::kDropPayloadLength},
      {"too long", [](wire::Headers&, size_t& payload) { payload = 257; }, Counter::kDropPayloadLength},
      {"empty", [](wire::Headers&, size_t& payload) { payload = 0; }, Counter::kDropPayloadLength},
  };
  VirtualPair pair;
  Host host(pair.left);
  Gsi services({.mac = pair.left->mac(),
                .addresses = pair.left_state->addresses,
                .links = pair.left_state->links,
                .agent = {}},
               host);
  port::TxBatch batch(pair.left_state->port->queue(0));
  const std::vector<std::byte> bytes(300);
  for (const Spoilt& spoilt : table) {
    SCOPED_TRACE(spoilt.what);
    wire::Packet packet;
    packet.source_mac = {{2, 0, 0, 0, 0, 9}};
    packet.source = Gid::from_ipv4({192, 0, 2, 9});
    packet.headers.bth.opcode = {0x64};
    packet.headers.deth.qkey = wire::kGsiQkey;
    size_t payload = wire::kMadBytes;
    spoilt.spoil(packet.headers, payload);
    packet.payload = std::span(bytes).first(payload);
    EXPECT_EQ(services.receive(packet, VirtualPair::now(), batch), spoilt.counter);
  }
  EXPECT_EQ(services.agent().counters().malformed, 0u);
}

}  // namespace
}  // namespace uroce::engine
