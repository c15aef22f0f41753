#include <gtest/gtest.h>

#include <cerrno>
#include <vector>

#include "two_agents.h"

namespace uroce::cm {
namespace {

using Strings = std::vector<std::string>;

std::vector<std::byte> text(const char* words) {
  const auto* const bytes = reinterpret_cast<const std::byte*>(words);
  return {bytes, bytes + std::string_view(words).size()};
}

template <size_t N>
std::string text_of(const wire::PrivateData<N>& data) {
  return reinterpret_cast<const char*>(data.data());
}

TEST(Agent, ConnectionAndItsEnd_ExpectTheMessagesOfTheHandshake) {
  TwoAgents world;
  const CommId id = world.connect();
  world.deliver();
  world.deliver();
  world.deliver();
  EXPECT_EQ(world.client.agent.state_of(id), State::kEstablished);
  EXPECT_EQ(world.server.agent.state_of(world.server.told[0].id), State::kEstablished);
  EXPECT_EQ(world.trace(), (Strings{"client REQ", "server REP", "client RTU"}));
  EXPECT_EQ(world.client.agent.deadline(), kNever);
  EXPECT_EQ(world.server.agent.deadline(), kNever);

  ASSERT_EQ(world.client.agent.disconnect(id, {}), 0);
  const Instant disconnected = world.now;
  world.run();
  EXPECT_EQ(world.trace(), (Strings{"client REQ", "server REP", "client RTU", "client DREQ", "server DREP"}));
  for (TwoAgents::Host* const host : {&world.client, &world.server}) {
    EXPECT_EQ(host->count(EventKind::kDisconnected), 1u);
    EXPECT_EQ(host->count(EventKind::kTimewaitEnded), 1u);
    EXPECT_EQ(host->agent.connections(), 0u);
  }
  EXPECT_GE(world.now - disconnected, cm_time(17));
}

TEST(Agent, ParametersAndPrivateData_ExpectThemAtTheOtherEnd) {
  TwoAgents world;
  world.server.answers = world.client.answers = false;
  wire::CmReq req = world.req(77);
  req.starting_psn = Psn(0xABCDEF);
  req.private_data[91] = std::byte{1};
  const CommId id = *world.client.agent.connect(world.client.to(world.server), req, 5, 0x1234);
  world.deliver();
  ASSERT_EQ(world.server.told.size(), 1u);
  const wire::CmMad& asked = world.server.told[0].mad;
  const auto& got = std::get<wire::CmReq>(asked.message);
  EXPECT_EQ(got.qp, QpNumber{77});
  EXPECT_EQ(got.starting_psn, Psn(0xABCDEF));
  EXPECT_EQ(got.private_data[91], std::byte{1});
  EXPECT_EQ(asked.ece_options, 0x1234u);

  wire::CmRep rep = TwoAgents::rep(88);
  rep.private_data[195] = std::byte{2};
  ASSERT_EQ(world.server.agent.reply(world.server.told[0].id, rep, 6, 0x5678), 0);
  world.deliver();
  ASSERT_EQ(world.client.told.size(), 1u);
  EXPECT_EQ(world.client.told[0].kind, EventKind::kReply);
  EXPECT_EQ(world.client.told[0].mad.ece_options, 0x5678u);
  EXPECT_EQ(std::get<wire::CmRep>(world.client.told[0].mad.message).qp, QpNumber{88});

  ASSERT_EQ(world.client.agent.ready_to_use(id, text("ready")), 0);
  world.deliver();
  EXPECT_EQ(text_of(std::get<wire::CmRtu>(world.server.told[1].mad.message).private_data), "ready");
  ASSERT_EQ(world.server.agent.disconnect(world.server.told[0].id, text("bye")), 0);
  world.deliver();
  EXPECT_EQ(text_of(std::get<wire::CmDreq>(world.client.told[1].mad.message).private_data), "bye");
}

TEST(Agent, RejectedByTheServer_ExpectReasonAndPrivateData) {
  TwoAgents world;
  world.server.answers = false;
  world.connect();
  world.deliver();
  ASSERT_EQ(
      world.server.agent.reject(world.server.told[0].id, wire::RejectReason::kConsumerDefined, text("no")),
      0);
  world.server.agent.release(world.server.told[0].id);
  world.run();
  ASSERT_EQ(world.client.told.size(), 1u);
  EXPECT_EQ(world.client.told[0].kind, EventKind::kRejected);
  const auto& rej = std::get<wire::CmRej>(world.client.told[0].mad.message);
  EXPECT_EQ(rej.reason, wire::RejectReason::kConsumerDefined);
  EXPECT_EQ(rej.answered, wire::CmAnswered::kReq);
  EXPECT_EQ(text_of(rej.private_data), "no");
  EXPECT_EQ(world.client.agent.connections() + world.server.agent.connections(), 0u);
}

TEST(Agent, RejectedByTheClient_ExpectTheServerTold) {
  TwoAgents world;
  world.client.answers = false;
  const CommId id = world.connect();
  world.deliver();
  world.deliver();
  ASSERT_EQ(world.client.agent.reject(id, wire::RejectReason::kConsumerDefined, {}), 0);
  world.client.agent.release(id);
  world.run();
  EXPECT_EQ(world.server.count(EventKind::kRejected), 1u);
  EXPECT_EQ(std::get<wire::CmRej>(world.server.told.back().mad.message).answered, wire::CmAnswered::kRep);
  EXPECT_EQ(world.client.agent.connections() + world.server.agent.connections(), 0u);
}

TEST(Agent, NoProgramListens_ExpectInvalidServiceId) {
  TwoAgents world;
  wire::CmReq req = world.req();
  req.service = {TwoAgents::kService.value + 1};
  ASSERT_TRUE(world.client.agent.connect(world.client.to(world.server), req, 1).ok());
  world.run();
  ASSERT_EQ(world.client.told.size(), 1u);
  EXPECT_EQ(std::get<wire::CmRej>(world.client.told[0].mad.message).reason,
            wire::RejectReason::kInvalidServiceId);
  EXPECT_TRUE(world.server.told.empty());
}

TEST(Agent, ServerIsGone_ExpectUnansweredAfterAllRetries) {
  TwoAgents world;
  world.fate = [](size_t) { return TwoAgents::Fate::kLost; };
  wire::CmReq req = world.req();
  req.max_cm_retries = 3;
  req.remote_cm_response_timeout = 10;
  ASSERT_TRUE(world.client.agent.connect(world.client.to(world.server), req, 1).ok());
  world.run();
  EXPECT_EQ(world.trace(), (Strings{"client REQ", "client REQ", "client REQ", "client REQ", "client REJ"}));
  EXPECT_EQ(world.client.count(EventKind::kUnanswered), 1u);
  EXPECT_EQ(world.client.agent.connections(), 0u);
}

TEST(Agent, ClientGoneAfterItsRequest_ExpectTheServerToGiveUp) {
  TwoAgents world;
  wire::CmReq req = world.req();
  req.max_cm_retries = 2;
  ASSERT_TRUE(world.client.agent.connect(world.client.to(world.server), req, 1).ok());
  world.deliver();
  world.fate = [](size_t) { return TwoAgents::Fate::kLost; };
  world.run();
  EXPECT_EQ(world.server.count(EventKind::kUnanswered), 1u);
  EXPECT_EQ(world.server.agent.connections(), 0u);
}

TEST(Agent, ConsumerThatTakesItsTime_ExpectThePeerAskedToWait) {
  TwoAgents world;
  world.server.answers = false;
  wire::CmReq req = world.req();
  req.max_cm_retries = 2;
  ASSERT_TRUE(world.client.agent.connect(world.client.to(world.server), req, 1).ok());
  world.run(seconds(60));  // three REQs would have been answered within 15 s, or never
  EXPECT_EQ(world.trace(), (Strings{"client REQ", "client REQ", "server MRA"}));
  EXPECT_TRUE(world.client.told.empty());
  ASSERT_EQ(world.server.count(EventKind::kRequest), 1u);
  ASSERT_EQ(world.server.agent.reply(world.server.told[0].id, TwoAgents::rep(), 1), 0);
  world.run(seconds(1));
  EXPECT_EQ(world.server.count(EventKind::kEstablished), 1u);
}

TEST(Agent, LostRtu_ExpectDataOfThePeerToEstablish) {
  TwoAgents world;
  world.fate = [](size_t n) { return n == 2 ? TwoAgents::Fate::kLost : TwoAgents::Fate::kDelivered; };
  world.connect();
  world.deliver();
  world.deliver();
  world.deliver();
  const CommId at_server = world.server.told[0].id;
  EXPECT_EQ(world.server.agent.state_of(at_server), State::kRepSent);
  EXPECT_EQ(world.server.agent.established(at_server), 0);
  EXPECT_EQ(world.server.count(EventKind::kEstablished), 1u);
  EXPECT_EQ(world.server.agent.established(at_server), EINVAL);
  world.run(seconds(60));
  EXPECT_EQ(world.trace(), (Strings{"client REQ", "server REP", "client RTU"}));
}

TEST(Agent, BothHangUpAtOnce_ExpectBothDisconnected) {
  TwoAgents world;
  const CommId id = world.connect();
  world.run(seconds(1));
  EXPECT_EQ(world.client.agent.disconnect(id, {}), 0);
  EXPECT_EQ(world.server.agent.disconnect(world.server.told[0].id, {}), 0);
  world.run();
  for (TwoAgents::Host* const host : {&world.client, &world.server}) {
    EXPECT_EQ(host->count(EventKind::kDisconnected), 1u);
    EXPECT_EQ(host->count(EventKind::kTimewaitEnded), 1u);
    EXPECT_EQ(host->agent.connections(), 0u);
  }
}

TEST(Agent, PeerThatBeganAnewWithTheSameQueuePair_ExpectTheOldConnectionEnded) {
  TwoAgents world;
  world.connect(100);
  world.run(seconds(1));
  // The host of the client has lost its memory; its numbers are others.
  wire::CmMad mad{1, 0, world.req(100)};
  std::get<wire::CmReq>(mad.message).local = {0xBEEF};
  std::array<std::byte, wire::kMadBytes> bytes;
  wire::write_cm(bytes.data(), mad);
  class Answers final : public MadSink {
   public:
    Sent send(const Address&, const wire::CmMad& mad) override {
      sent.push_back(mad);
      return Sent::kYes;
    }
    std::vector<wire::CmMad> sent;
  } answers;
  world.server.agent.receive(world.server.to(world.client), bytes, world.now, answers);
  ASSERT_EQ(answers.sent.size(), 1u);
  EXPECT_EQ(std::get<wire::CmRej>(answers.sent[0].message).reason, wire::RejectReason::kStaleConnection);
  world.run();
  EXPECT_EQ(world.server.count(EventKind::kDisconnected), 1u);

  // The next attempt finds it gone.
  std::get<wire::CmReq>(mad.message).local = {0xBEF0};
  wire::write_cm(bytes.data(), mad);
  world.server.agent.receive(world.server.to(world.client), bytes, world.now, answers);
  EXPECT_EQ(world.server.count(EventKind::kRequest), 2u);
}

TEST(Agent, AlternatePath_ExpectItRefused) {
  TwoAgents world;
  world.connect();
  world.run(seconds(1));
  const CommId at_server = world.server.told[0].id;
  const wire::CmMad lap{5, 0, wire::CmLap{.local = world.client.told[0].id, .remote = at_server}};
  std::array<std::byte, wire::kMadBytes> bytes;
  wire::write_cm(bytes.data(), lap);
  class Answers final : public MadSink {
   public:
    Sent send(const Address&, const wire::CmMad& mad) override {
      last = mad;
      return Sent::kYes;
    }
    wire::CmMad last;
  } answers;
  world.server.agent.receive(world.server.to(world.client), bytes, world.now, answers);
  EXPECT_EQ(std::get<wire::CmApr>(answers.last.message).status, wire::AprStatus::kUnsupported);
  EXPECT_EQ(answers.last.transaction_id, 5u);
  EXPECT_EQ(world.server.agent.state_of(at_server), State::kEstablished);
}

TEST(Agent, ResolutionOfAService_ExpectTheQueuePair) {
  TwoAgents world;
  const wire::CmSidrReq req{.service = TwoAgents::kService};
  ASSERT_TRUE(
      world.client.agent.resolve_service(world.client.to(world.server), req, milliseconds(100), 5, 3).ok());
  world.deliver();
  ASSERT_EQ(world.server.count(EventKind::kServiceRequest), 1u);
  world.run(milliseconds(250));  // asked twice more meanwhile, and the server is still at it
  EXPECT_EQ(world.server.count(EventKind::kServiceRequest), 1u);
  ASSERT_EQ(world.server.agent.answer_service(world.server.told[0].id,
                                              {.qp = {321}, .service = TwoAgents::kService, .qkey = 0x1234}),
            0);
  world.run();
  ASSERT_EQ(world.client.told.size(), 1u);
  EXPECT_EQ(world.client.told[0].kind, EventKind::kServiceReply);
  const auto& rep = std::get<wire::CmSidrRep>(world.client.told[0].mad.message);
  EXPECT_EQ(rep.qp, QpNumber{321});
  EXPECT_EQ(rep.qkey, 0x1234u);
  EXPECT_EQ(world.client.agent.connections() + world.server.agent.connections(), 0u);
}

TEST(Agent, ServiceThatNoProgramHas_ExpectItsStatus) {
  TwoAgents world;
  ASSERT_TRUE(
      world.client.agent.resolve_service(world.client.to(world.server), {.service = {1}}, seconds(1), 5, 3)
          .ok());
  world.run();
  ASSERT_EQ(world.client.told.size(), 1u);
  EXPECT_EQ(std::get<wire::CmSidrRep>(world.client.told[0].mad.message).status,
            wire::SidrStatus::kUnsupported);
}

TEST(Agent, CallsInTheWrongState_ExpectEinvalAndNothingSent) {
  TwoAgents world;
  world.server.answers = world.client.answers = false;
  const CommId id = world.connect();
  const CommId absent{id.value + (1u << 20)};
  for (const CommId wrong : {absent, CommId{}, id}) {
    EXPECT_EQ(world.client.agent.reply(wrong, TwoAgents::rep(), 1), EINVAL);
    EXPECT_EQ(world.client.agent.ready_to_use(wrong, {}), EINVAL);
    EXPECT_EQ(world.client.agent.established(wrong), EINVAL);
    EXPECT_EQ(world.client.agent.reject(wrong, wire::RejectReason::kConsumerDefined, {}), EINVAL);
    EXPECT_EQ(world.client.agent.disconnect(wrong, {}), EINVAL);
    EXPECT_EQ(world.client.agent.answer_service(wrong, {}), EINVAL);
  }
  const std::vector<std::byte> too_much(300);
  world.deliver();
  EXPECT_EQ(
      world.server.agent.reject(world.server.told[0].id, wire::RejectReason::kConsumerDefined, too_much),
      EINVAL);
  ASSERT_EQ(world.server.agent.reply(world.server.told[0].id, TwoAgents::rep(), 1), 0);
  world.deliver();
  EXPECT_EQ(world.client.agent.ready_to_use(id, too_much), EINVAL);
  ASSERT_EQ(world.client.agent.ready_to_use(id, {}), 0);
  EXPECT_EQ(world.client.agent.disconnect(id, too_much), EINVAL);
  world.client.agent.release(absent);
  EXPECT_EQ(world.client.agent.state_of(id), State::kEstablished);
}

TEST(Agent, LinkAddressUnknownForAWhile_ExpectNoRetrySpent) {
  Reluctant sink;
  TwoAgents world;
  wire::CmReq req = world.req();
  req.max_cm_retries = 0;
  ASSERT_TRUE(world.client.agent.connect(world.client.to(world.server), req, 1).ok());
  for (int i = 0; i < 15; ++i) {
    world.client.agent.pump(world.now, sink);
    world.now = world.now + milliseconds(2);
  }
  EXPECT_EQ(sink.asked, 10);
  EXPECT_TRUE(world.client.told.empty());
}

TEST(Agent, NoRoomToSend_ExpectItSentInOrderLater) {
  class Narrow final : public MadSink {
   public:
    Sent send(const Address&, const wire::CmMad& mad) override {
      if (room == 0) return Sent::kNoRoom;
      --room;
      qps.push_back(std::get<wire::CmReq>(mad.message).qp.value);
      return Sent::kYes;
    }
    int room = 0;
    std::vector<uint32_t> qps;
  } sink;
  TwoAgents world;
  for (uint32_t qp = 1; qp <= 5; ++qp) world.connect(qp);
  for (const int room : {0, 2, 0, 3}) {
    sink.room = room;
    world.client.agent.pump(world.now, sink);
  }
  EXPECT_EQ(sink.qps, (std::vector<uint32_t>{1, 2, 3, 4, 5}));
}

}  // namespace
}  // namespace uroce::cm
