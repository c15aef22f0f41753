#include <gtest/gtest.h>

#include <algorithm>

#include "two_agents.h"
#include "wire/ip_cm.h"

// What peers hold before they are connected: how many places, for how long, and at whose cost.
namespace uroce::cm {
namespace {

Gid host(uint32_t number) {
  return Gid::from_ipv4({10, 1, static_cast<uint8_t>(number >> 8), static_cast<uint8_t>(number)});
}

/// A server, and what any number of hosts send to it.
class Flood : public ::testing::Test {
 protected:
  static constexpr uint32_t kBacklog = 8;
  static constexpr ServiceId kOwn{0x0106'2000};

  Flood() { EXPECT_TRUE(server().agent.listen(kOwn, Gid{}, kBacklog, 5).ok()); }

  TwoAgents::Host& server() { return world.server; }
  void send(const Gid& from, wire::CmMessage message, MacAddress link = {}) {
    std::array<std::byte, wire::kMadBytes> bytes;
    wire::write_cm(bytes.data(), {1, 0, std::move(message)});
    server().agent.receive({.local = server().address, .remote = from, .link = link}, bytes, world.now, sink);
  }
  [[nodiscard]] wire::CmReq req(const Gid& from, uint32_t number, ServiceId service = kOwn) const {
    wire::CmReq made = world.req(number);
    made.local = {number};
    made.service = service;
    made.primary.local_gid = from;
    return made;
  }
  void ask(const Gid& from, uint32_t number) { send(from, req(from, number)); }
  void pump() { server().agent.pump(world.now, sink); }
  /// As the server's timers want it.
  void run(Duration limit) {
    for (const Instant end = world.now + limit; world.now < end;) {
      pump();
      world.now = std::min(end, std::max(world.now + microseconds(10), server().agent.deadline()));
    }
  }
  template <typename Message>
  [[nodiscard]] int64_t sent() const {
    return std::ranges::count_if(
        sink.sent, [](const auto& mad) { return std::holds_alternative<Message>(mad.message); });
  }

  struct Sink final : MadSink {
    Sent send(const Address&, const wire::CmMad& mad) override {
      this->sent.push_back(mad);
      return Sent::kYes;
    }
    std::vector<wire::CmMad> sent;
  };
  TwoAgents world{{.connections_max = 1 << 14, .listeners_max = 4, .first_number = 0x100'0000}};
  Sink sink;
};

TEST_F(Flood, OneRequestOfAnAbsentHost_ExpectFewRepliesAndItsPlaceBackInSeconds) {
  ask(host(1), 7);
  run(seconds(7));
  EXPECT_EQ(server().agent.connections(), 1u) << "a peer that lost an RTU has time";
  run(seconds(2));
  EXPECT_EQ(sent<wire::CmRep>(), 1 + Agent::kRepeatsMax);
  EXPECT_EQ(sent<wire::CmRej>(), 1);
  EXPECT_EQ(server().count(EventKind::kUnanswered), 1u);
  EXPECT_EQ(server().agent.connections(), 0u);
}

TEST_F(Flood, PeerThatAsksForTimeAgainAndAgain_ExpectAnEndByOurClock) {
  ask(host(1), 7);
  pump();
  const CommId ours = server().told.at(0).id;
  for (int i = 0; i < 20; ++i) {
    send(
        host(1),
        wire::CmMra{.local = {7}, .remote = ours, .answered = wire::CmAnswered::kRep, .service_timeout = 31});
    run(seconds(5));
  }
  EXPECT_EQ(server().count(EventKind::kUnanswered), 1u);
}

TEST_F(Flood, HostThatFillsTheBacklog_ExpectAnotherHostHeardInItsPlace) {
  server().answers = server().releases = false;
  for (uint32_t i = 1; i <= 1000; ++i) ask(host(1), i);
  EXPECT_EQ(server().count(EventKind::kRequest), kBacklog);
  const CommId oldest = server().told.at(0).id;
  ask(host(2), 1);
  EXPECT_EQ(server().count(EventKind::kRequest), kBacklog + 1);
  // The oldest of the busy host gives way, and its consumer hears of it.
  EXPECT_EQ(server().told.at(kBacklog).kind, EventKind::kUnanswered);
  EXPECT_EQ(server().told.at(kBacklog).id, oldest);
  EXPECT_EQ(server().agent.counters().displaced, 1u);
  pump();
  EXPECT_TRUE(sink.sent.empty()) << "a peer whose request the program has not seen repeats it";
  // No host displaces another one that has no more than it would have.
  for (uint32_t i = 2; i <= 1000; ++i) ask(host(2), i);
  EXPECT_EQ(server().agent.counters().displaced, kBacklog / 2);
}

/// Each place that a host gets by a displacement is one that it does not lose to the same flood.
TEST_F(Flood, RequestsThatWereAccepted_ExpectTheirNumberBoundedAndOthersConnected) {
  constexpr uint32_t kMax = Agent::kHalfOpenMin;
  for (uint32_t i = 1; i <= 3 * kMax; ++i) ask(host(1), i);
  EXPECT_EQ(server().count(EventKind::kRequest), kMax);
  EXPECT_EQ(server().agent.connections(), kMax);

  for (uint32_t i = 1; i <= 10; ++i) {
    ask(host(2), i);
    ASSERT_EQ(server().count(EventKind::kRequest), kMax + i);
    const CommId ours = server().told.back().id;
    for (uint32_t j = 0; j < 100; ++j) ask(host(1), 10'000 + 100 * i + j);
    send(host(2), wire::CmRtu{.local = {i}, .remote = ours});
    EXPECT_EQ(server().agent.state_of(ours), State::kEstablished);
  }
  // What is connected counts no more, so its place went to the flood again.
  EXPECT_LE(server().agent.connections(), kMax + 2 * 10);
}

TEST_F(Flood, EachRequestFromAnotherHost_ExpectAHostThatAnswersConnected) {
  for (uint32_t i = 1; i <= 5000; ++i) {
    ask(host(i), i);
    if (i % 500 != 0) continue;
    const Gid honest = Gid::from_ipv4({10, 2, 0, static_cast<uint8_t>(i / 500)});
    ask(honest, 7);
    ASSERT_EQ(server().told.back().kind, EventKind::kRequest);
    const CommId ours = server().told.back().id;
    for (uint32_t j = 0; j < 100; ++j) ask(host(20'000 + i + j), 7);
    send(honest, wire::CmRtu{.local = {7}, .remote = ours});
    EXPECT_EQ(server().agent.state_of(ours), State::kEstablished) << i;
    pump();
  }
  EXPECT_LE(server().agent.connections(), size_t{Agent::kHalfOpenMin} + 10);
}

TEST_F(Flood, EveryListenerFull_ExpectHalfOfTheTableLeftForOurOwnConnections) {
  for (uint64_t service = 1; service <= 2; ++service)
    ASSERT_TRUE(server().agent.listen({service}, Gid{}, 8000, service).ok());
  server().answers = false;
  for (uint32_t i = 1; i <= 20'000; ++i) send(host(i), req(host(i), i, {1 + i % 2}));
  for (uint32_t i = 0; i < (1 << 14) / 2; ++i)
    ASSERT_TRUE(server().agent.connect(server().to(world.client), world.req(20'000 + i), 9).ok()) << i;
}

TEST_F(Flood, RequestAndRefusalAgainAndAgain_ExpectNoPlaceLost) {
  server().answers = false;
  for (uint32_t i = 1; i <= 50'000; ++i) {
    ask(host(1), i);
    send(host(1), wire::CmRej{.local = {i}, .reason = wire::RejectReason::kConsumerDefined});
    if (server().told.size() > 100) server().told.clear();
  }
  EXPECT_EQ(server().agent.connections(), 0u);
  EXPECT_TRUE(server().agent.connect(server().to(world.client), world.req(), 9).ok());
}

struct Renewal {
  const char* what;
  uint64_t guid;
  uint8_t link;
  bool ends;      // the connection that there is
  bool accepted;  // the request
};

/// A REQ that says the queue pair number of a connection that there is.
TEST_F(Flood, QueuePairThatIsConnectedAlready_ExpectItEndedOnlyByWhoMayBeItsOwner) {
  const Renewal table[] = {
      {"its owner, which began anew", 0x55, 1, true, false},
      {"another MAC", 0x55, 2, false, false},
      {"another channel adapter, whose numbers are its own", 0x56, 1, false, true},
  };
  for (const Renewal& renewal : table) {
    SCOPED_TRACE(renewal.what);
    TwoAgents::Host fresh(server().address,
                          {.connections_max = 16, .listeners_max = 1, .first_number = 0x100'0000});
    ASSERT_TRUE(fresh.agent.listen(kOwn, Gid{}, 8, 1).ok());
    const auto come = [&](wire::CmMessage message, uint8_t link) {
      std::array<std::byte, wire::kMadBytes> bytes;
      wire::write_cm(bytes.data(), {1, 0, std::move(message)});
      const MacAddress mac{{2, 0, 0, 0, 0, link}};
      fresh.agent.receive({.local = fresh.address, .remote = host(1), .link = mac}, bytes, world.now, sink);
    };
    wire::CmReq first = req(host(1), 7);
    first.ca_guid = 0x55;
    come(first, 1);
    const CommId ours = fresh.told.at(0).id;
    come(wire::CmRtu{.local = {7}, .remote = ours}, 1);
    ASSERT_EQ(fresh.agent.state_of(ours), State::kEstablished);
    wire::CmReq again = first;
    again.local = {8};
    again.ca_guid = renewal.guid;
    come(again, renewal.link);
    EXPECT_EQ(fresh.agent.state_of(ours), renewal.ends ? State::kDreqSent : State::kEstablished);
    EXPECT_EQ(fresh.count(EventKind::kRequest), renewal.accepted ? 2u : 1u);
  }
}

// ---- Requests that come before the listener.

class Early : public Flood {
 protected:
  static constexpr ServiceId kLater{0x0106'3000};
  static constexpr Duration kHeld = milliseconds(50);
};

TEST_F(Early, ListenerThatComesAMomentLater_ExpectTheRequestHeard) {
  send(host(1), req(host(1), 7, kLater));
  send(host(1), req(host(1), 7, kLater));
  world.now = world.now + milliseconds(49);
  pump();
  EXPECT_TRUE(server().told.empty());
  ASSERT_TRUE(server().agent.listen(kLater, Gid{}, 8, 6).ok());
  EXPECT_LE(server().agent.deadline(), world.now);
  pump();
  EXPECT_EQ(server().count(EventKind::kRequest), 1u);
  EXPECT_EQ(sent<wire::CmRej>(), 0);
  EXPECT_EQ(server().agent.counters().held, 1u);
}

TEST_F(Early, NoListener_ExpectTheRefusalAfterAMoment) {
  pump();
  send(host(1), req(host(1), 7, kLater));
  send(host(1), wire::CmSidrReq{.request = {8}, .service = kLater});
  EXPECT_EQ(server().agent.deadline(), world.now + kHeld);
  world.now = world.now + kHeld;
  pump();
  ASSERT_EQ(sent<wire::CmRej>(), 1);
  EXPECT_EQ(std::get<wire::CmRej>(sink.sent.at(0).message).reason, wire::RejectReason::kInvalidServiceId);
  EXPECT_EQ(sent<wire::CmSidrRep>(), 1);
  EXPECT_EQ(server().agent.deadline(), kNever);
}

TEST_F(Early, FloodOfThem_ExpectTheirNumberBoundedForEachHostAndInAll) {
  for (uint32_t i = 1; i <= 100; ++i) send(host(1), req(host(1), i, kLater));
  EXPECT_EQ(server().agent.counters().held, EarlyRequests::kOfOneHostMax);
  EXPECT_EQ(sent<wire::CmRej>(), 100 - int64_t{EarlyRequests::kOfOneHostMax});
  for (uint32_t i = 1; i <= 100; ++i) send(host(i), req(host(i), 200 + i, kLater));
  EXPECT_EQ(server().agent.counters().held, EarlyRequests::kMax);
}

TEST_F(Early, RequestGivenUpMeanwhile_ExpectItForgotten) {
  send(host(1), req(host(1), 7, kLater));
  send(host(1), wire::CmRej{.local = {7}, .reason = wire::RejectReason::kTimeout});
  ASSERT_TRUE(server().agent.listen(kLater, Gid{}, 8, 6).ok());
  pump();
  EXPECT_TRUE(server().told.empty());
  EXPECT_TRUE(sink.sent.empty());
}

// ---- Loopback addresses.

TEST_F(Flood, LoopbackListener_ExpectOnlyThisHostHeardThere) {
  const Gid loopback = Gid::from_ipv4({127, 0, 0, 1});
  constexpr ServiceId kInside{0x0106'4000};
  constexpr ServiceId kEverywhere{0x0106'4001};
  ASSERT_TRUE(server().agent.listen(kInside, loopback, 8, 1).ok());
  ASSERT_TRUE(server().agent.listen(kEverywhere, Gid::from_ipv4({}), 8, 2).ok());
  uint32_t number = 0;
  const auto heard = [&](ServiceId service, const Gid& from, const Gid& to) {
    const size_t before = server().count(EventKind::kRequest);
    wire::CmReq made = req(from, ++number, service);
    wire::write_ip_cm(made.private_data.data(), {.ipv4 = true, .source = from, .destination = to});
    send(from, made);
    return server().count(EventKind::kRequest) > before;
  };
  const Gid ours = server().address;
  EXPECT_TRUE(heard(kInside, ours, loopback));
  EXPECT_FALSE(heard(kInside, ours, ours)) << "as with sockets";
  EXPECT_FALSE(heard(kInside, host(1), loopback));
  EXPECT_FALSE(heard(kInside, host(1), ours));
  EXPECT_TRUE(heard(kEverywhere, ours, loopback));
  EXPECT_TRUE(heard(kEverywhere, host(1), ours));
}

}  // namespace
}  // namespace uroce::cm
