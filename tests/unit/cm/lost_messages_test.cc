#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

#include "two_agents.h"

namespace uroce::cm {
namespace {

using Fate = TwoAgents::Fate;

/// Connects, hangs up when both ends are connected, and waits for the end of it.
void live(TwoAgents& world, bool server_hangs_up) {
  const CommId id = world.connect();
  world.run(seconds(100));
  ASSERT_EQ(world.client.agent.state_of(id), State::kEstablished);
  ASSERT_EQ(world.server.count(EventKind::kEstablished), 1u);
  TwoAgents::Host& first = server_hangs_up ? world.server : world.client;
  ASSERT_EQ(first.agent.disconnect(server_hangs_up ? world.server.told[0].id : id, {}), 0);
  world.run();
  EXPECT_EQ(world.server.count(EventKind::kRequest), 1u);
  EXPECT_EQ(world.client.count(EventKind::kReply), 1u);
  for (TwoAgents::Host* const host : {&world.client, &world.server}) {
    EXPECT_EQ(host->count(EventKind::kDisconnected), 1u);
    EXPECT_EQ(host->count(EventKind::kTimewaitEnded), 1u);
    EXPECT_EQ(host->count(EventKind::kRejected) + host->count(EventKind::kUnanswered), 0u);
    EXPECT_EQ(host->agent.connections(), 0u);
  }
}

/// Every pair of datagrams, and every pair of fates for them.
TEST(LostMessages, AnyTwoOfALife_ExpectTheSameEvents) {
  constexpr size_t kDatagrams = 10;  // five without loss, and what is sent again
  constexpr Fate kFates[] = {Fate::kLost, Fate::kDoubled, Fate::kLate};
  for (const bool server_hangs_up : {false, true}) {
    for (size_t first = 0; first < kDatagrams; ++first) {
      for (size_t second = first; second < kDatagrams; ++second) {
        for (const Fate fate_of_first : kFates) {
          for (const Fate fate_of_second : kFates) {
            SCOPED_TRACE(testing::Message()
                         << first << ": " << int(fate_of_first) << ", " << second << ": "
                         << int(fate_of_second) << (server_hangs_up ? " server" : " client"));
            TwoAgents world;
            world.fate = [&](size_t n) {
              return n == first ? fate_of_first : n == second ? fate_of_second : Fate::kDelivered;
            };
            live(world, server_hangs_up);
            if (testing::Test::HasFailure()) return;
          }
        }
      }
    }
  }
}

/// A tenth of everything lost, much of it doubled and late, and many connections at once.
TEST(LostMessages, ManyConnectionsOnABadLink_ExpectEachSetUpOnceAndEndedOnce) {
  constexpr uint32_t kConnections = 2000;
  const char* const given = std::getenv("UROCE_CM_SEED");
  const uint64_t seed = given == nullptr ? 6 : std::strtoull(given, nullptr, 0);
  SCOPED_TRACE(testing::Message() << "UROCE_CM_SEED=" << seed);
  Random random(seed);
  TwoAgents world({.connections_max = kConnections, .listeners_max = 4, .first_number = 0x100'0000});
  world.fate = [&](size_t) {
    if (random.chance(10, 100)) return Fate::kLost;
    if (random.chance(10, 100)) return Fate::kDoubled;
    return random.chance(10, 100) ? Fate::kLate : Fate::kDelivered;
  };
  std::vector<CommId> ids;
  for (uint32_t i = 0; i < kConnections; ++i) ids.push_back(world.connect(i + 1));
  world.run(seconds(200));
  for (const CommId id : ids) ASSERT_EQ(world.client.agent.state_of(id), State::kEstablished);
  EXPECT_EQ(world.server.count(EventKind::kRequest), kConnections);
  EXPECT_EQ(world.server.count(EventKind::kEstablished), kConnections);

  for (const TwoAgents::Told& told : std::vector(world.server.told)) {
    if (told.kind == EventKind::kRequest && random.chance(1, 2)) {
      EXPECT_EQ(world.server.agent.disconnect(told.id, {}), 0);
    }
  }
  for (const CommId id : ids) {
    if (random.chance(1, 2)) static_cast<void>(world.client.agent.disconnect(id, {}));
  }
  world.run(seconds(2));
  for (const CommId id : ids) static_cast<void>(world.client.agent.disconnect(id, {}));
  world.run();
  for (TwoAgents::Host* const host : {&world.client, &world.server}) {
    EXPECT_EQ(host->count(EventKind::kDisconnected), kConnections);
    EXPECT_EQ(host->count(EventKind::kTimewaitEnded), kConnections);
    EXPECT_EQ(host->count(EventKind::kRejected) + host->count(EventKind::kUnanswered), 0u);
    EXPECT_EQ(host->agent.connections(), 0u);
  }
}

}  // namespace
}  // namespace uroce::cm
