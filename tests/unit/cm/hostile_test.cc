#include <gtest/gtest.h>

#include <cstdlib>

#include "two_agents.h"

// What a peer, or a stranger, can do with datagrams of its own making.
namespace uroce::cm {
namespace {

class Answers final : public MadSink {
 public:
  Sent send(const Address&, const wire::CmMad& mad) override {
    sent.push_back(mad);
    return Sent::kYes;
  }
  std::vector<wire::CmMad> sent;
};

using Bytes = std::array<std::byte, wire::kMadBytes>;

Bytes bytes_of(wire::CmMessage message, uint64_t transaction = 1) {
  Bytes bytes;
  wire::write_cm(bytes.data(), {transaction, 0, std::move(message)});
  return bytes;
}

TEST(Hostile, FloodOfRequests_ExpectABoundedBacklogAndLifeAfterIt) {
  TwoAgents world({.connections_max = 200, .listeners_max = 4, .first_number = 0x100'0000});
  world.server.answers = false;
  Answers answers;
  for (uint32_t i = 1; i <= 100'000; ++i) {
    wire::CmReq req = world.req(i);
    req.local = {i};
    world.server.agent.receive(world.server.to(world.client), bytes_of(req), world.now, answers);
  }
  EXPECT_EQ(world.server.count(EventKind::kRequest), 64u);  // the backlog
  EXPECT_EQ(world.server.agent.connections(), 64u);
  EXPECT_EQ(world.server.agent.counters().no_room, 100'000u - 64u);
  EXPECT_TRUE(answers.sent.empty());

  for (const TwoAgents::Told& told : std::vector(world.server.told)) {
    EXPECT_EQ(world.server.agent.reject(told.id, wire::RejectReason::kConsumerDefined, {}), 0);
    world.server.agent.release(told.id);
  }
  world.server.answers = true;
  world.connect(200'000);
  world.run(seconds(10));
  EXPECT_EQ(world.server.count(EventKind::kEstablished), 1u);
}

TEST(Hostile, MessagesOfAStranger_ExpectTheConnectionUntouched) {
  TwoAgents world;
  const CommId client = world.connect();
  world.run(seconds(1));
  const CommId server = world.server.told[0].id;
  const size_t told = world.server.told.size();
  const Address stranger{.local = world.server.address, .remote = Gid::from_ipv4({10, 0, 0, 66})};
  Answers answers;
  const auto come = [&](const wire::CmMessage& message, const Address& from) {
    world.server.agent.receive(from, bytes_of(message), world.now, answers);
  };
  come(wire::CmDreq{.local = client, .remote = server, .remote_qp = {200}}, stranger);
  come(wire::CmRej{.local = client, .remote = server}, stranger);
  come(wire::CmRej{.local = client}, stranger);
  come(wire::CmDrep{.local = client, .remote = server}, stranger);
  const Address peer = world.server.to(world.client);
  come(wire::CmDreq{.local = {client.value + 1}, .remote = server, .remote_qp = {200}}, peer);
  come(wire::CmDreq{.local = client, .remote = server, .remote_qp = {99}}, peer);
  come(wire::CmRej{.local = {client.value + 1}, .remote = server}, peer);
  come(wire::CmRej{.local = client, .remote = {server.value + (1u << 20)}}, peer);
  EXPECT_EQ(world.server.agent.state_of(server), State::kEstablished);
  EXPECT_EQ(world.server.told.size(), told);
  EXPECT_EQ(world.server.agent.counters().unknown_connection, 7u);

  // A request to end a connection that we do not have is answered: it is ended.
  answers.sent.clear();
  come(wire::CmDreq{.local = {5}, .remote = {6}}, stranger);
  ASSERT_EQ(answers.sent.size(), 1u);
  EXPECT_EQ(std::get<wire::CmDrep>(answers.sent[0].message).remote, CommId{5});
  come(wire::CmRep{.local = {5}, .remote = {6}}, stranger);
  EXPECT_EQ(std::get<wire::CmRej>(answers.sent[1].message).reason, wire::RejectReason::kInvalidCommId);
  // Nothing that answers is answered: two of us cannot keep each other busy.
  for (const wire::CmMessage& message :
       {wire::CmMessage(wire::CmRej{}), wire::CmMessage(wire::CmDrep{}), wire::CmMessage(wire::CmMra{}),
        wire::CmMessage(wire::CmRtu{}), wire::CmMessage(wire::CmApr{}), wire::CmMessage(wire::CmSidrRep{})})
    come(message, stranger);
  EXPECT_EQ(answers.sent.size(), 2u);
}

/// Both hang up while nothing arrives, and give up; then one more DREQ comes.
TEST(Hostile, HangUpAfterBothGaveUp_ExpectOneAnswer) {
  TwoAgents world;
  const CommId client = world.connect();
  world.run(seconds(1));
  const CommId server = world.server.told[0].id;
  world.fate = [](size_t) { return TwoAgents::Fate::kLost; };
  ASSERT_EQ(world.client.agent.disconnect(client, {}), 0);
  ASSERT_EQ(world.server.agent.disconnect(server, {}), 0);
  while (world.server.agent.state_of(server) == State::kDreqSent) world.run(milliseconds(10));
  ASSERT_EQ(world.server.agent.state_of(server), State::kTimewait);
  ASSERT_EQ(world.client.agent.state_of(client), State::kTimewait);

  world.fate = [](size_t) { return TwoAgents::Fate::kDelivered; };
  const size_t sent = world.trace().size();
  Answers answers;
  world.server.agent.receive(world.server.to(world.client),
                             bytes_of(wire::CmDreq{.local = client, .remote = server}), world.now, answers);
  world.run();
  ASSERT_EQ(world.trace().size(), sent + 1);
  EXPECT_EQ(world.trace().back(), "server DREP");
  EXPECT_EQ(world.client.agent.connections() + world.server.agent.connections(), 0u);
}

/// Silent after a request in which every time is as long as can be said.
TEST(Hostile, RequestOfEndlessPatience_ExpectThePlaceBackInMinutes) {
  TwoAgents world;
  world.fate = [](size_t) { return TwoAgents::Fate::kLost; };
  wire::CmReq req = world.req();
  req.max_cm_retries = 15;
  req.primary.ack_timeout = 31;
  req.local_cm_response_timeout = 31;
  req.local = {77};
  const Address client = world.server.to(world.client);
  Answers answers;
  world.server.agent.receive(client, bytes_of(req), world.now, answers);
  world.deliver();
  world.server.agent.receive(client,
                             bytes_of(wire::CmMra{.local = {77},
                                                  .remote = world.server.told.at(0).id,
                                                  .answered = wire::CmAnswered::kRep,
                                                  .service_timeout = 31}),
                             world.now, answers);
  world.run(seconds(300));
  EXPECT_EQ(world.server.count(EventKind::kUnanswered), 1u);
  EXPECT_EQ(world.server.agent.connections(), 0u);

  // One that was in use waits no longer than that, either.
  req.local = {78};
  world.server.agent.receive(client, bytes_of(req), world.now, answers);
  const CommId id = world.server.told.back().id;
  world.server.agent.receive(client, bytes_of(wire::CmRtu{.local = {78}, .remote = id}), world.now, answers);
  ASSERT_EQ(world.server.agent.disconnect(id, {}), 0);
  world.deliver();
  world.server.agent.receive(
      client, bytes_of(wire::CmDrep{.local = {78}, .remote = id}, world.last_sent().transaction_id),
      world.now, answers);
  EXPECT_EQ(world.server.agent.state_of(id), State::kTimewait);
  world.run(seconds(5));
  EXPECT_EQ(world.server.agent.connections(), 0u);
}

struct Refused {
  const char* what;
  void (*spoil)(wire::CmReq&);
  wire::RejectReason reason;
};

TEST(Hostile, RequestsThatMakeNoSense_ExpectTheReason) {
  const Refused table[] = {
      {"transport 2", [](wire::CmReq& r) { r.transport = wire::CmTransport::kReserved; },
       wire::RejectReason::kInvalidTransport},
      {"an extended transport that is not XRC",
       [](wire::CmReq& r) { r.transport = wire::CmTransport::kExtended; },
       wire::RejectReason::kInvalidTransport},
      {"another's address", [](wire::CmReq& r) { r.primary.local_gid.bytes[15] ^= 1; },
       wire::RejectReason::kInvalidGid},
      {"not our address", [](wire::CmReq& r) { r.primary.remote_gid.bytes[15] ^= 1; },
       wire::RejectReason::kInvalidGid},
      {"no such service", [](wire::CmReq& r) { r.service.value ^= 1; },
       wire::RejectReason::kInvalidServiceId},
  };
  for (const Refused& refused : table) {
    SCOPED_TRACE(refused.what);
    TwoAgents world(
        {.connections_max = 64, .listeners_max = 4, .first_number = 0x5EED'0000, .hold_requests = {}});
    Answers answers;
    wire::CmReq req = world.req();
    req.local = {77};
    refused.spoil(req);
    world.server.agent.receive(world.server.to(world.client), bytes_of(req), world.now, answers);
    ASSERT_EQ(answers.sent.size(), 1u);
    const auto& rej = std::get<wire::CmRej>(answers.sent[0].message);
    EXPECT_EQ(rej.reason, refused.reason);
    EXPECT_EQ(rej.remote, CommId{77});
    EXPECT_TRUE(world.server.told.empty());
    EXPECT_EQ(world.server.agent.connections(), 0u);
  }
}

/// Random messages whose numbers are often right, at random moments, into two agents that also talk to each
/// other.
TEST(Hostile, RandomMessages_ExpectNoneLeftInTheEnd) {
  const char* const given = std::getenv("UROCE_CM_SEED");
  const uint64_t seed = given == nullptr ? 13 : std::strtoull(given, nullptr, 0);
  SCOPED_TRACE(testing::Message() << "UROCE_CM_SEED=" << seed);
  Random random(seed);
  for (int round = 0; round < 200; ++round) {
    TwoAgents world;
    Answers answers;
    std::vector<CommId> ids;
    for (int step = 0; step < 200; ++step) {
      if (random.chance(1, 10)) {
        const Result<CommId> id = world.client.agent.connect(world.client.to(world.server),
                                                             world.req(static_cast<uint32_t>(step + 1)), 9);
        if (id.ok()) ids.push_back(*id);
      }
      Bytes bytes;
      for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.next());
      wire::write_mad_header(bytes.data(), {.management_class = 7,
                                            .class_version = 2,
                                            .method = 3,
                                            .transaction_id = random.below(4),
                                            .attribute = static_cast<uint16_t>(0x10 + random.below(11))});
      const auto likely = [&](size_t at) {
        const auto& told = random.chance(1, 2) ? world.server.told : world.client.told;
        if (told.empty() || random.chance(1, 5)) return;
        wire::CmMad mad{0, 0, wire::CmRtu{.local = told[random.below(told.size())].id}};
        Bytes other;
        wire::write_cm(other.data(), mad);
        std::copy_n(other.begin() + wire::kMadHeaderBytes, 4, bytes.begin() + static_cast<ptrdiff_t>(at));
      };
      likely(wire::kMadHeaderBytes);
      likely(wire::kMadHeaderBytes + 4);
      TwoAgents::Host& victim = random.chance(1, 2) ? world.server : world.client;
      TwoAgents::Host& other = &victim == &world.server ? world.client : world.server;
      victim.agent.receive(victim.to(other), bytes, world.now, answers);
      if (random.chance(1, 3)) world.deliver();
      if (!ids.empty() && random.chance(1, 20))
        static_cast<void>(world.client.agent.disconnect(ids[random.below(ids.size())], {}));
    }
    for (TwoAgents::Host* const host : {&world.client, &world.server}) {
      for (const TwoAgents::Told& told : std::vector(host->told)) host->agent.release(told.id);
    }
    for (const CommId id : ids) world.client.agent.release(id);
    world.run(seconds(1'000'000));
    EXPECT_EQ(world.client.agent.connections(), 0u);
    EXPECT_EQ(world.server.agent.connections(), 0u);
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace uroce::cm
