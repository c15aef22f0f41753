#include <gtest/gtest.h>

#include <cerrno>

#include "two_agents.h"

namespace uroce::cm {
namespace {

TEST(Listeners, OfAddresses_ExpectTheNearestAsked) {
  TwoAgents world;
  world.server.answers = false;
  const Result<ListenerId> mine = world.server.agent.listen(TwoAgents::kService, world.server.address, 4, 42);
  ASSERT_TRUE(mine.ok());
  EXPECT_EQ(world.server.agent.listen(TwoAgents::kService, world.server.address, 4, 43).error().code,
            EADDRINUSE);
  ASSERT_TRUE(world.server.agent.listen(TwoAgents::kService, world.client.address, 4, 44).ok());
  EXPECT_EQ(world.server.agent.listen({1}, {}, 4, 45).ok(), true);
  EXPECT_EQ(world.server.agent.listen({2}, {}, 4, 46).error().code, ENOMEM);

  world.connect(1);
  world.deliver();
  world.server.agent.end_listening(*mine);
  world.connect(2);
  world.run();
  // The one that waited at `mine` was rejected with it; the other came to the listener of all addresses.
  EXPECT_EQ(world.client.count(EventKind::kRejected), 1u);
  EXPECT_EQ(world.server.count(EventKind::kRequest), 2u);
}

/// As a server for one client does: what it has taken outlives the listener, and counts for no backlog.
TEST(Listeners, RequestThatWasTaken_ExpectItIndependentOfItsListener) {
  TwoAgents world;
  world.server.answers = false;
  const Result<ListenerId> listener = world.server.agent.listen(ServiceId{7}, Gid{}, 1, 5);
  ASSERT_TRUE(listener.ok());
  wire::CmReq req = world.req();
  req.service = {7};
  for (uint32_t i = 0; i < 3; ++i) {
    req.qp = {100 + i};
    ASSERT_TRUE(world.client.agent.connect(world.client.to(world.server), req, 9).ok());
    world.run(milliseconds(1));
    ASSERT_EQ(world.server.count(EventKind::kRequest), i + 1);
    EXPECT_EQ(world.server.agent.take_request(world.server.told[i].id, 20 + i), 0);
    EXPECT_EQ(world.server.agent.take_request(world.server.told[i].id, 20 + i), EINVAL);
  }
  world.server.agent.end_listening(*listener);
  EXPECT_EQ(world.server.agent.reply(world.server.told[0].id, TwoAgents::rep(), 20), 0);
  world.run(milliseconds(1));
  EXPECT_EQ(world.server.count(EventKind::kEstablished), 1u);
  EXPECT_EQ(world.client.count(EventKind::kRejected), 0u);
}

}  // namespace
}  // namespace uroce::cm
