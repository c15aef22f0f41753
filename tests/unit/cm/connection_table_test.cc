#include "cm/connection_table.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "two_agents.h"
#include "wire/cm_message.h"

namespace uroce::cm {
namespace {

constexpr CommPrefix kPrefix{.value = 0xABC, .bits = 12};

uint32_t prefix_of(CommId id) { return id.value >> (32 - kPrefix.bits); }

TEST(ConnectionTable, WithoutAPrefix_ExpectTwentyBitsOfIndex) {
  EXPECT_EQ(ConnectionTable::capacity_max({}), (size_t{1} << 20) - 1);
  ConnectionTable table(4, 7, {}, 0xFFF1'2345);
  std::vector<uint32_t> numbers;
  for (int i = 0; i < 5; ++i) {
    Connection* const connection = table.allocate();
    numbers.push_back(connection->local.value);
    table.free(*connection);
  }
  // The last generation is followed by the first.
  EXPECT_EQ(numbers,
            (std::vector<uint32_t>{0xFFF1'2346, 0xFFF1'2347, 0xFFF1'2348, 0xFFF1'2349, 0x0001'2346}));
}

TEST(ConnectionTable, WithAPrefix_ExpectItInEachNumberOfAllGenerations) {
  EXPECT_EQ(ConnectionTable::capacity_max(kPrefix), 32767u);
  for (const uint32_t first : {0u, 0xFFFF'FFFFu, 0x1234'5678u, 0x7FFEu, 0x7FFFu}) {
    ConnectionTable table(ConnectionTable::capacity_max(kPrefix), 7, kPrefix, first);
    std::vector<Connection*> taken;
    for (int generation = 0; generation < 40; ++generation) {
      while (Connection* const connection = table.allocate()) {
        ASSERT_EQ(prefix_of(connection->local), kPrefix.value);
        connection->state = State::kReqSent;
        ASSERT_EQ(table.find(connection->local), connection);
        taken.push_back(connection);
      }
      ASSERT_EQ(taken.size(), table.capacity());
      std::set<uint32_t> numbers;
      for (const Connection* const connection : taken) numbers.insert(connection->local.value);
      ASSERT_EQ(numbers.size(), taken.size());
      for (Connection* const connection : taken) table.free(*connection);
      taken.clear();
    }
  }
}

TEST(ConnectionTable, NumberOfAnEarlierConnection_ExpectItFoundAgainAfterThirtyTwo) {
  ConnectionTable table(1, 7, kPrefix);
  std::set<uint32_t> seen;
  for (int generation = 0; generation < 32; ++generation) {
    Connection* const connection = table.allocate();
    connection->state = State::kReqSent;
    EXPECT_TRUE(seen.insert(connection->local.value).second);
    for (const uint32_t number : seen)
      EXPECT_EQ(table.find({number}) != nullptr, number == connection->local.value);
    table.free(*connection);
  }
  EXPECT_FALSE(seen.insert(table.allocate()->local.value).second);
}

/// A peer that has a connection of the one in TIMEWAIT would refuse the other's as stale.
TEST(ConnectionTable, NumbersOfTwoProcesses_ExpectTheIndexToBeginElsewhere) {
  std::set<uint32_t> seen;
  for (const CommPrefix prefix : {CommPrefix{}, kPrefix}) {
    for (const uint32_t first : {0x0000'0000u, 0x0000'0400u, 0x0000'3000u}) {
      ConnectionTable table(64, 7, prefix, first);
      while (Connection* const connection = table.allocate())
        EXPECT_TRUE(seen.insert(connection->local.value).second);
    }
  }
  EXPECT_EQ(seen.size(), 2u * 3 * 64);
}

/// Both kinds of numbers that a peer answers to.
TEST(ConnectionTable, AgentWithAPrefix_ExpectItInRequestsOfBothKinds) {
  TwoAgents world(
      {.connections_max = 64, .listeners_max = 4, .first_number = 0x5EED'0000, .prefix = kPrefix});
  const CommId connection = world.connect();
  const Result<CommId> request = world.client.agent.resolve_service(
      world.client.to(world.server), {.service = TwoAgents::kService}, milliseconds(1), 1, 2);
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(prefix_of(connection), kPrefix.value);
  EXPECT_EQ(prefix_of(*request), kPrefix.value);
  world.run(milliseconds(1));
  EXPECT_EQ(world.client.agent.state_of(connection), State::kEstablished);
  for (const TwoAgents::Told& told : world.server.told) EXPECT_EQ(prefix_of(told.id), kPrefix.value);
}

}  // namespace
}  // namespace uroce::cm
