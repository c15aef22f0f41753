#include <gtest/gtest.h>

#include <atomic>
#include <vector>

#include "two_agents.h"

// A program ends, with and without a word.
namespace uroce::cm {
namespace {

TEST(ProcessEnd, ExpectALostDreqRepeatedSoonThoughTheConnectionIsPatient) {
  TwoAgents world;
  world.connect(100);
  const CommId disconnected = world.connect(101);
  world.deliver();
  world.deliver();
  world.deliver();
  ASSERT_EQ(world.client.agent.disconnect(disconnected, {}), 0);
  world.client.agent.release(disconnected);
  const size_t before = world.datagrams();
  world.fate = [&](size_t n) {
    return n < before + 4 ? TwoAgents::Fate::kLost : TwoAgents::Fate::kDelivered;
  };
  EXPECT_FALSE(world.client.agent.has_ended());
  world.client.agent.end(milliseconds(50), 3, world.now);
  world.run(milliseconds(149));  // both are lost twice
  EXPECT_TRUE(world.client.agent.has_ended());
  EXPECT_EQ(world.client.told.size(), 2u);  // of the replies
  EXPECT_EQ(world.server.count(EventKind::kDisconnected), 2u);
}

TEST(ProcessEnd, ExpectItDoneWithPeersThatDoNotAnswer) {
  TwoAgents world;
  world.connect(100);
  world.deliver();
  world.deliver();
  world.deliver();
  world.connect(101);
  world.fate = [](size_t) { return TwoAgents::Fate::kLost; };
  world.client.agent.end(milliseconds(50), 3, world.now);
  world.run(milliseconds(199));
  EXPECT_FALSE(world.client.agent.has_ended());
  world.run(milliseconds(10));
  EXPECT_TRUE(world.client.agent.has_ended());
}

TEST(ProcessEnd, TheServiceSeesAConnectionFromTheReplyToItsEnd) {
  // Both ends write the same rows, each its first one.
  std::vector<host::ConnectionRow> rows(65);
  std::atomic<uint32_t> used{0};
  TwoAgents world({.connections_max = 64,
                   .listeners_max = 4,
                   .first_number = 0x5EED'0000,
                   .rows = host::ConnectionRows(rows, used)});
  const CommId id = world.connect();
  EXPECT_EQ(used, 0u);
  world.deliver();  // REQ
  EXPECT_EQ(used, 2u);
  EXPECT_EQ(rows[1].remote, id.value);
  world.deliver();  // REP
  world.deliver();  // RTU
  EXPECT_EQ(rows[1].local, id.value);
  EXPECT_NE(rows[1].remote, 0u);
  EXPECT_EQ(rows[1].remote_address, world.server.address);
  ASSERT_EQ(world.client.agent.disconnect(id, {}), 0);
  EXPECT_EQ(rows[1].local, id.value) << "the DREQ may be lost";
  world.run();
  EXPECT_EQ(rows[1].local, 0u);
}

TEST(ProcessEnd, AtAnyMoment_ExpectNothingLeft) {
  for (int steps = 0; steps < 8; ++steps) {
    for (const bool client_ends : {true, false}) {
      SCOPED_TRACE(testing::Message() << steps << " steps, " << (client_ends ? "client" : "server"));
      TwoAgents world;
      const CommId id = world.connect();
      for (int i = 0; i < steps; ++i) {
        if (i == 4) static_cast<void>(world.client.agent.disconnect(id, {}));
        world.deliver();
      }
      if (client_ends) {
        world.client.agent.release(id);
      } else if (!world.server.told.empty()) {
        world.server.agent.release(world.server.told[0].id);
      }
      world.run();
      if (!client_ends && world.server.told.empty()) continue;
      // The end that is left is notified, and releases the connection, or disconnects in its turn.
      if (world.client.agent.state_of(id) == State::kEstablished) world.client.agent.release(id);
      world.run();
      EXPECT_EQ(world.client.agent.connections(), 0u);
      EXPECT_EQ(world.server.agent.connections(), 0u);
    }
  }
}

TEST(ProcessEnd, WithoutTheLinkAddress_ExpectItNotEndedBeforeTheDreqHasLeft) {
  TwoAgents world;
  const CommId id = world.connect();
  world.deliver();
  world.deliver();
  world.deliver();
  Reluctant sink;
  ASSERT_EQ(world.client.agent.disconnect(id, {}), 0);
  world.client.agent.pump(world.now, sink);
  world.client.agent.end(milliseconds(50), 3, world.now);
  for (int i = 0; i < 15; ++i) {
    EXPECT_FALSE(world.client.agent.has_ended());
    world.now = world.now + milliseconds(2);
    world.client.agent.pump(world.now, sink);
  }
  EXPECT_EQ(sink.asked, 10);
}

}  // namespace
}  // namespace uroce::cm
