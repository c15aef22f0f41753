#include <gtest/gtest.h>

#include <cerrno>

#include "two_agents.h"

namespace uroce::cm {
namespace {

constexpr AgentOptions kSmall{.connections_max = 8, .listeners_max = 1, .first_number = 0x5EED'0000};

/// Connected, disconnected by the client, and in TIMEWAIT at both ends.
CommId connect_and_end(TwoAgents& world, uint32_t qp) {
  const CommId id = world.connect(qp);
  for (int i = 0; i < 3; ++i) world.deliver();
  EXPECT_EQ(world.client.agent.state_of(id), State::kEstablished);
  EXPECT_EQ(world.client.agent.disconnect(id, {}), 0);
  for (int i = 0; i < 3; ++i) world.deliver();
  EXPECT_EQ(world.client.agent.state_of(id), State::kTimewait);
  return id;
}

void release_told(TwoAgents::Host& host) {
  for (const TwoAgents::Told& told : host.told)
    if (told.kind == EventKind::kDisconnected) host.agent.release(told.id);
}

TEST(ReleasedTimewait, MoreConnectionsThanTheTableHasRoomForInTheTimeOfOne) {
  TwoAgents world(kSmall);
  const Instant began = world.now;
  std::vector<CommId> ended;
  for (uint32_t i = 0; i < 3 * kSmall.connections_max; ++i) {
    ended.push_back(connect_and_end(world, 100 + i));
    release_told(world.client);
    release_told(world.server);
  }
  EXPECT_LT(world.now - began, cm_time(17)) << "none has left TIMEWAIT by itself";
  for (TwoAgents::Host* const host : {&world.client, &world.server}) {
    EXPECT_EQ(host->agent.connections(), kSmall.connections_max);
    EXPECT_EQ(host->agent.counters().timewait_cut_short, 2 * kSmall.connections_max);
    EXPECT_EQ(host->agent.counters().no_room, 0u);
  }
  // The oldest gave way.
  for (size_t i = 0; i < ended.size(); ++i)
    EXPECT_EQ(world.client.agent.state_of(ended[i]),
              i < 2 * kSmall.connections_max ? State::kFree : State::kTimewait);
  world.run();
  EXPECT_EQ(world.client.agent.connections(), 0u);
  EXPECT_EQ(world.server.agent.connections(), 0u);
}

TEST(ReleasedTimewait, WhatTheConsumerHasNotReleasedStays) {
  TwoAgents world(kSmall);
  for (uint32_t i = 0; i < kSmall.connections_max; ++i) {
    connect_and_end(world, 100 + i);
    release_told(world.server);
  }
  const auto refused = world.client.agent.connect(world.client.to(world.server), world.req(), 1);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ENOMEM);
  // Release one: it gives way, and the others stay.
  world.client.agent.release(world.client.told.back().id);
  EXPECT_TRUE(world.client.agent.connect(world.client.to(world.server), world.req(), 1).ok());
  EXPECT_FALSE(world.client.agent.connect(world.client.to(world.server), world.req(), 1).ok());
  world.run();
  EXPECT_EQ(world.client.count(EventKind::kTimewaitEnded), kSmall.connections_max - 1);
}

/// The answer to the first DREQ was lost, and meanwhile the connection gave way.
TEST(ReleasedTimewait, ARepeatedDreqIsAnswered) {
  TwoAgents world(kSmall);
  const CommId first = world.connect(100);
  for (int i = 0; i < 3; ++i) world.deliver();
  const size_t before = world.datagrams();
  world.fate = [before](size_t n) {
    return n == before + 1 ? TwoAgents::Fate::kLost : TwoAgents::Fate::kDelivered;
  };
  ASSERT_EQ(world.client.agent.disconnect(first, {}), 0);
  for (int i = 0; i < 3; ++i) world.deliver();
  ASSERT_EQ(world.client.agent.state_of(first), State::kDreqSent);
  release_told(world.server);
  for (uint32_t i = 1; i <= kSmall.connections_max; ++i) {
    connect_and_end(world, 100 + i);
    release_told(world.client);
    release_told(world.server);
  }
  EXPECT_GT(world.server.agent.counters().timewait_cut_short, 0u);
  world.run(seconds(20));
  EXPECT_NE(world.client.agent.state_of(first), State::kDreqSent);
  EXPECT_EQ(world.client.agent.counters().repeated, 1u) << "the first repetition is answered";
}

}  // namespace
}  // namespace uroce::cm
