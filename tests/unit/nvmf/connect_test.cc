// How a connection becomes a queue, and how it does not.
#include <algorithm>

#include "disks.h"

namespace uroce::nvmf {
namespace {

using namespace testing_disks;

constexpr uint16_t kEntries = 32;

class Connect : public Disks {
 protected:
  Answer connect(const Command& command, const ConnectData& data, std::optional<uint16_t> told_qid = {}) {
    HostQueue queue(target, {.qid = told_qid, .entries = kEntries});
    return queue.run(command, bytes_of(data));
  }
};

TEST_F(Connect, AdminQueueGetsAController) {
  HostQueue admin(target, {.qid = 0, .entries = kEntries});
  EXPECT_FALSE(admin.queue().qid());
  const Answer answer = admin.run(command::connect(0, kEntries - 1), bytes_of(connect_data()));
  EXPECT_TRUE(answer.ok());
  EXPECT_EQ(answer.sq_head, 1);
  EXPECT_EQ(admin.queue().qid(), 0);
  EXPECT_EQ(admin.queue().controller_id(), answer.result);
  // Dynamic controllers: another host gets another one.
  HostQueue other(target, {.qid = 0, .entries = kEntries});
  EXPECT_NE(other.run(command::connect(0, kEntries - 1), bytes_of(connect_data())).result, answer.result);
}

TEST_F(Connect, OnlyConnectIsTakenBefore) {
  HostQueue queue(target, {.entries = kEntries});
  expect_refused(queue.run(command::make(command::kKeepAlive)), StatusCode::kCommandSequenceError);
  expect_refused(queue.run(command::get_property(Property::kVersion)), StatusCode::kCommandSequenceError);
  expect_refused(queue.run(command::make(command::kRead, 1)), StatusCode::kCommandSequenceError);
}

TEST_F(Connect, SecondConnectIsOutOfSequence) {
  Host host(target);
  expect_refused(host.admin.run(command::connect(0, 31), bytes_of(connect_data())),
                 StatusCode::kCommandSequenceError);
  // Both arrive before one is executed.
  HostQueue queue(target, {.entries = kEntries});
  const uint16_t one = queue.receive(command::connect(0, 31), bytes_of(connect_data()));
  const uint16_t two = queue.receive(command::connect(0, 31), bytes_of(connect_data()));
  queue.execute(one);
  queue.execute(two);
  EXPECT_TRUE(queue.answer(one)->ok());
  EXPECT_EQ(queue.answer(two)->code, StatusCode::kCommandSequenceError);
}

struct Mistake {
  const char* name;
  void (*make)(Command&, ConnectData&);
  StatusCode code;
  uint64_t result;
};

constexpr uint64_t data_at(size_t offset) { return 1u << 16 | offset; }

const Mistake kMistakes[] = {
    {"record format", [](Command& c, ConnectData&) { c.dword10 |= 1; },
     StatusCode::kConnectIncompatibleFormat, 0},
    {"queue of one entry", [](Command& c, ConnectData&) { c.dword11 = 0; },
     StatusCode::kConnectInvalidParameters, 44},
    {"more entries than the transport has", [](Command& c, ConnectData&) { c.dword11 = kEntries; },
     StatusCode::kConnectInvalidParameters, 44},
    {"unknown attribute", [](Command& c, ConnectData&) { c.dword11 |= 0x80u << 16; },
     StatusCode::kConnectInvalidParameters, 46},
    {"fixed controller", [](Command&, ConnectData& d) { d.controller_id = 1; },
     StatusCode::kConnectInvalidParameters, data_at(16)},
    {"no subsystem", [](Command&, ConnectData& d) { d.subsystem_nqn[5] = '!'; },
     StatusCode::kConnectInvalidParameters, data_at(256)},
    {"subsystem without end", [](Command&, ConnectData& d) { std::ranges::fill(d.subsystem_nqn, 'n'); },
     StatusCode::kConnectInvalidParameters, data_at(256)},
    {"host without end", [](Command&, ConnectData& d) { std::ranges::fill(d.host_nqn, 'n'); },
     StatusCode::kConnectInvalidParameters, data_at(512)},
    {"host that is no NQN", [](Command&, ConnectData& d) { d.host_nqn[1] = 'x'; },
     StatusCode::kConnectInvalidParameters, data_at(512)},
    {"I/O queue of no controller",
     [](Command& c, ConnectData& d) {
       c.dword10 = 1u << 16;
       d.controller_id = 7;
     },
     StatusCode::kConnectInvalidParameters, data_at(16)},
};

TEST_F(Connect, MistakesAreNamed) {
  for (const Mistake& mistake : kMistakes) {
    SCOPED_TRACE(mistake.name);
    Command command = command::connect(0, kEntries - 1);
    ConnectData data = connect_data();
    mistake.make(command, data);
    const Answer answer = connect(command, data);
    expect_refused(answer, mistake.code);
    EXPECT_EQ(answer.result, mistake.result);
  }
}

TEST_F(Connect, QueueIdIsThatOfThePrivateData) {
  const Answer answer = connect(command::connect(0, 31), connect_data(), 3);
  expect_refused(answer, StatusCode::kConnectInvalidParameters);
  EXPECT_EQ(answer.result, 42u);
}

TEST_F(Connect, HostsThatAreNotAllowed) {
  ASSERT_TRUE(target.set_hosts(kSubsystem, {"nqn.2026-11.example:other"}, false).ok());
  const Answer answer = connect(command::connect(0, 31), connect_data());
  expect_refused(answer, StatusCode::kConnectInvalidHost);
  EXPECT_EQ(answer.result, data_at(512));
  EXPECT_TRUE(connect(command::connect(0, 31), connect_data(kSubsystem, "nqn.2026-11.example:other")).ok());
}

TEST_F(Connect, HostWithoutAName_ExpectItWhereAnyHostIsAllowed) {
  EXPECT_TRUE(connect(command::connect(0, 31), connect_data(kSubsystem, "")).ok());
  ASSERT_TRUE(target.set_hosts(kSubsystem, {kHost}, false).ok());
  const Answer answer = connect(command::connect(0, 31), connect_data(kSubsystem, ""));
  expect_refused(answer, StatusCode::kConnectInvalidHost);
  EXPECT_EQ(answer.result, data_at(512));
}

TEST_F(Connect, HostThatMayNotStayIsSentAway) {
  Host host(target);
  HostQueue& io = host.io();
  ASSERT_TRUE(target.set_hosts(kSubsystem, {kHost}, false).ok());
  EXPECT_FALSE(host.admin.queue().ending());
  ASSERT_TRUE(target.set_hosts(kSubsystem, {}, false).ok());
  EXPECT_TRUE(host.admin.queue().ending());
  EXPECT_TRUE(io.queue().ending());
}

TEST_F(Connect, ControllersMaxIsBusyForAWhile) {
  ASSERT_TRUE(
      target.add_subsystem({.nqn = "nqn.2026-11.example:small", .allow_any_host = true, .controllers_max = 1})
          .ok());
  const ConnectData data = connect_data("nqn.2026-11.example:small");
  {
    HostQueue first(target, {.entries = kEntries});
    EXPECT_TRUE(first.run(command::connect(0, 31), bytes_of(data)).ok());
    const Answer answer = connect(command::connect(0, 31), data);
    EXPECT_EQ(answer.code, StatusCode::kConnectControllerBusy);
    EXPECT_FALSE(answer.do_not_retry);
  }
  EXPECT_TRUE(connect(command::connect(0, 31), data).ok());
}

class ConnectIo : public Connect {
 protected:
  ConnectData data() { return connect_data(kSubsystem, kHost, host.controller); }
  Host host{target};
};

TEST_F(ConnectIo, QueuesOfAController) {
  HostQueue& io = host.io(8);
  EXPECT_EQ(io.queue().qid(), 8);
  EXPECT_EQ(io.queue().controller_id(), host.controller);
  const Answer twice = connect(command::connect(8, 31), data());
  expect_refused(twice, StatusCode::kCommandSequenceError);
  const Answer above = connect(command::connect(9, 31), data());
  expect_refused(above, StatusCode::kConnectInvalidParameters);
  EXPECT_EQ(above.result, 42u);
}

TEST_F(ConnectIo, QueuesAboveTheNumberGranted) {
  const Answer answer = host.admin.run(command::set_features(0x07, 1 | 1u << 16));
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer.result, 1u | 1u << 16);
  host.io(2);
  EXPECT_EQ(connect(command::connect(3, 31), data()).code, StatusCode::kConnectInvalidParameters);
}

TEST_F(ConnectIo, AQueueIdMayBeUsedAgain) {
  { EXPECT_TRUE(connect(command::connect(1, 31), data()).ok()); }
  EXPECT_TRUE(connect(command::connect(1, 31), data()).ok());
}

TEST_F(ConnectIo, OfAnotherHost) {
  ConnectData other = connect_data(kSubsystem, "nqn.2026-11.example:other", host.controller);
  Answer answer = connect(command::connect(1, 31), other);
  expect_refused(answer, StatusCode::kConnectInvalidParameters);
  EXPECT_EQ(answer.result, data_at(512));
  other = data();
  other.host_id[3] ^= 1;
  answer = connect(command::connect(1, 31), other);
  expect_refused(answer, StatusCode::kConnectInvalidParameters);
  EXPECT_EQ(answer.result, data_at(0));
}

TEST_F(ConnectIo, LongerThanTheController) {
  HostQueue queue(target, {.transport = {}, .entries = 1024});
  const Answer answer = queue.run(command::connect(1, 128), bytes_of(data()));
  expect_refused(answer, StatusCode::kConnectInvalidParameters);
  EXPECT_EQ(answer.result, 44u);
}

TEST_F(ConnectIo, BeforeTheControllerIsEnabled) {
  host.set_configuration(0);
  EXPECT_EQ(connect(command::connect(1, 31), data()).code, StatusCode::kConnectInvalidParameters);
  host.set_configuration(kEnabled);
  EXPECT_TRUE(connect(command::connect(1, 31), data()).ok());
}

TEST_F(ConnectIo, FlowControl) {
  HostQueue with(target, {.entries = kEntries});
  ASSERT_TRUE(with.run(command::connect(1, 3), bytes_of(data())).ok());
  for (const int head : {2, 3, 0, 1})
    EXPECT_EQ(with.run(command::make(command::kFlush, kAllNamespaces)).sq_head, head);

  HostQueue without(target, {.entries = kEntries});
  const Answer answer =
      without.run(command::connect(2, 3, 0, ConnectFields::kDisableFlowControl), bytes_of(data()));
  EXPECT_EQ(answer.sq_head, 0xFFFF);
  EXPECT_EQ(without.run(command::make(command::kFlush, kAllNamespaces)).sq_head, 0);
}

TEST_F(ConnectIo, Disconnect) {
  HostQueue& io = host.io();
  Command command = command::fabrics(FabricsType::kDisconnect);
  command.dword10 = 1;
  expect_refused(io.run(command), StatusCode::kConnectIncompatibleFormat);
  EXPECT_FALSE(io.queue().ending());
  EXPECT_TRUE(io.run(command::fabrics(FabricsType::kDisconnect)).ok());
  EXPECT_TRUE(io.queue().ending());
  EXPECT_EQ(io.run(command::make(command::kFlush, kAllNamespaces)).code, StatusCode::kAbortedQueueDeleted);
  expect_refused(host.admin.run(command::fabrics(FabricsType::kDisconnect)),
                 StatusCode::kDisconnectInvalidQueueType);
  EXPECT_FALSE(host.admin.queue().ending());
}

TEST_F(Connect, NoHostConnects) {
  HostQueue queue(target, {.entries = kEntries});
  queue.poll();
  queue.now = queue.now + seconds(120);
  queue.poll();
  EXPECT_FALSE(queue.queue().ending());
  queue.now = queue.now + seconds(1);
  queue.poll();
  EXPECT_TRUE(queue.queue().ending());
}

TEST_F(Connect, SubsystemThatGoes) {
  Host host(target);
  HostQueue& io = host.io();
  ASSERT_TRUE(target.remove_subsystem(kSubsystem).ok());
  EXPECT_TRUE(host.admin.queue().ending());
  EXPECT_TRUE(io.queue().ending());
  EXPECT_EQ(target.collect(), 1u);
  EXPECT_EQ(connect(command::connect(0, 31), connect_data()).code, StatusCode::kConnectInvalidParameters);
}

}  // namespace
}  // namespace uroce::nvmf
