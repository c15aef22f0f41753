// How much a host may have: connections, buffers, lines of the log.
#include "nvmf/rdma/admission.h"

#include <gtest/gtest.h>

#include <deque>
#include <utility>
#include <vector>

#include "nvmf/rdma/budget.h"
#include "nvmf/rdma/events.h"

namespace uroce::nvmf {
namespace {

RdmaAddress host(uint8_t last) {
  RdmaAddress address;
  address.bytes[15] = last;
  return address;
}

RdmaOptions options(uint32_t queues_max) {
  RdmaOptions made;
  made.queues_max = queues_max;
  return made;
}

constexpr Instant kStart{1'000'000'000};

TEST(RdmaAdmission, OneHost_ExpectHalfOfAllQueuesAndNoMore) {
  RdmaAdmission admission(options(8));
  for (RdmaAdmission::Number i = 1; i <= 4; ++i) {
    EXPECT_EQ(admission.refusal(host(1)), std::nullopt);
    admission.add(i, host(1), kStart);
  }
  EXPECT_EQ(admission.refusal(host(1)), RdmaEvent::kRefusedHostQueues);
  for (RdmaAdmission::Number i = 5; i <= 8; ++i) admission.add(i, host(2), kStart);
  EXPECT_EQ(admission.refusal(host(3)), RdmaEvent::kRefusedQueues);
  admission.remove(1);
  EXPECT_EQ(admission.refusal(host(1)), std::nullopt);
}

TEST(RdmaAdmission, StrangersBeyondTheLimit_ExpectTheOldestToGoAndKnownHostsToStay) {
  RdmaOptions made = options(1024);
  made.pending_max = 4;
  made.pending_per_host = 2;
  RdmaAdmission admission(made);
  admission.add(1, host(9), kStart);
  admission.connected(1, false);
  // Known: as many as it may have.
  for (RdmaAdmission::Number i = 2; i < 20; ++i) {
    EXPECT_EQ(admission.to_replace(host(9)), std::nullopt);
    admission.add(i, host(9), kStart);
  }
  admission.add(20, host(1), kStart);
  admission.add(21, host(2), kStart);
  admission.add(22, host(2), kStart);
  EXPECT_EQ(admission.to_replace(host(2)), 21u);
  admission.ending(21);
  admission.add(23, host(2), kStart);
  EXPECT_EQ(admission.to_replace(host(3)), std::nullopt);
  admission.add(24, host(3), kStart);
  EXPECT_EQ(admission.to_replace(host(4)), 20u);
  // Discovery takes every host, and makes none known.
  admission.connected(20, true);
  EXPECT_EQ(admission.to_replace(host(4)), 22u);
  admission.connected(20, false);
  EXPECT_EQ(admission.to_replace(host(4)), std::nullopt);
}

TEST(RdmaAdmission, FloodOfRequests_ExpectWhatHasAnsweredToGoLast) {
  RdmaOptions made = options(1024);
  made.pending_max = 8;
  made.pending_per_host = 4;
  RdmaAdmission admission(made);
  admission.add(1, host(1), kStart);
  admission.established(1);
  admission.connected(1, true);
  admission.add(2, host(2), kStart);
  admission.established(2);
  // Requests in the name of everyone, those two among them, whose handshakes are not completed.
  for (RdmaAdmission::Number i = 3; i < 1000; ++i) {
    const RdmaAddress from = host(static_cast<uint8_t>(i % 20));
    if (const auto ends = admission.to_replace(from)) {
      ASSERT_GT(*ends, 2u) << i;
      admission.ending(*ends);
      admission.remove(*ends);
    }
    admission.add(i, from, kStart);
  }
}

TEST(RdmaAdmission, HostsThatAnswerAndStay_ExpectTheOldestOfTheLargestToGo) {
  RdmaOptions made = options(1024);
  made.pending_max = 8;
  made.pending_per_host = 4;
  RdmaAdmission admission(made);
  RdmaAdmission::Number number = 0;
  const auto discover = [&](uint8_t last) {
    admission.add(++number, host(last), kStart);
    admission.established(number);
    admission.connected(number, true);
  };
  discover(1);
  for (int i = 0; i < 3; ++i) discover(2);
  for (int i = 0; i < 4; ++i) discover(3);
  EXPECT_EQ(admission.to_replace(host(4)), 5u) << "the oldest of the third";
  EXPECT_EQ(admission.to_replace(host(3)), 5u) << "which has as many as one may have";
  // One without Connect goes before all of them, and one whose handshake is open before that.
  admission.ending(8);
  admission.add(9, host(1), kStart);
  admission.established(9);
  EXPECT_EQ(admission.to_replace(host(4)), 9u);
  admission.ending(5);
  admission.add(10, host(5), kStart);
  EXPECT_EQ(admission.to_replace(host(4)), 10u);
}

TEST(RdmaAdmission, TimeWithoutConnect_ExpectTheEndLaterForKnownHosts) {
  const Duration limit = seconds(RdmaOptions{}.connect_s);
  RdmaAdmission admission(options(64));
  EXPECT_FALSE(admission.has_waiting());
  admission.add(1, host(1), kStart);
  admission.add(2, host(2), kStart);
  admission.established(2);
  admission.add(3, host(3), kStart);
  admission.connected(3, false);
  admission.add(4, host(3), kStart);
  admission.established(4);
  EXPECT_TRUE(admission.has_waiting());
  EXPECT_TRUE(admission.late(kStart + limit).empty());
  const auto late = admission.late(kStart + limit + nanoseconds(1));
  ASSERT_EQ(late.size(), 2u);
  EXPECT_EQ(late[0].why, RdmaEvent::kEndedHandshake);
  EXPECT_EQ(late[1].why, RdmaEvent::kEndedNoConnect);
  admission.ending(1);
  admission.ending(2);
  EXPECT_TRUE(admission.late(kStart + limit * RdmaAdmission::kKnownFactor).empty());
  EXPECT_EQ(admission.late(kStart + limit * RdmaAdmission::kKnownFactor + nanoseconds(1)).size(), 1u);
  admission.connected(4, false);
  EXPECT_TRUE(admission.late(kStart + seconds(1000)).empty());
  EXPECT_FALSE(admission.has_waiting());
}

TEST(RdmaAdmission, AnyOrderOfCalls_ExpectNoCountLeft) {
  RdmaAdmission admission(options(4));
  admission.add(1, host(1), kStart);
  admission.connected(1, false);
  admission.connected(1, false);
  admission.ending(1);
  admission.ending(1);
  admission.connected(1, false);
  admission.established(1);
  admission.remove(1);
  admission.remove(1);
  admission.add(2, host(1), kStart);
  admission.add(3, host(1), kStart);
  EXPECT_EQ(admission.refusal(host(1)), RdmaEvent::kRefusedHostQueues);
  // Not known any more, so it is bounded as a stranger.
  EXPECT_EQ(admission.to_replace(host(1)), 2u);
}

TEST(RdmaBudget, HostsThatHoldOnToBuffers_ExpectSomeLeftForTheNext) {
  constexpr uint32_t kBuffers = 128;
  uint32_t free = kBuffers;
  const auto take_all = [&](RdmaBufferBudget& budget) {
    while (free > 0 && budget.may_take(free)) ++budget.held, --free;
  };
  // Hosts before Connect hold no more than a fifth.
  RdmaBufferBudget pending{.pending = true};
  take_all(pending);
  EXPECT_GT(pending.held, 0u);
  EXPECT_LE(pending.held, kBuffers / 4);
  // In turns, as they are served.
  std::deque<RdmaBufferBudget> hosts(8);
  bool any = true;
  while (std::exchange(any, false)) {
    for (RdmaBufferBudget& budget : hosts) {
      if (!budget.may_take(free)) continue;
      ++budget.held, --free;
      any = true;
    }
  }
  EXPECT_GT(free, 0u);
  RdmaBufferBudget next;
  EXPECT_TRUE(next.may_take(free));
  // One host alone is hardly held up.
  RdmaBufferBudget alone;
  free = kBuffers;
  take_all(alone);
  EXPECT_GE(alone.held, kBuffers * 3 / 4);
}

TEST(RdmaEvents, Flood_ExpectFewLinesAndAllCounted) {
  std::vector<std::string> lines;
  RdmaEvents events([&](const RdmaLogLine& line) { lines.emplace_back(line.text); });
  for (int i = 0; i < 10'000; ++i) events.record(RdmaEvent::kEndedByHost, {.host = "a\nb"}, kStart);
  EXPECT_EQ(lines.size(), static_cast<size_t>(RdmaEvents::kBurst));
  EXPECT_EQ(lines[0], "a\\x0ab: ended: by the host");
  events.record(RdmaEvent::kEndedByHost, {.host = "c"}, kStart + seconds(1));
  EXPECT_EQ(lines.back(), "c: ended: by the host (9900 lines before it were left out)");
  EXPECT_EQ(events.totals()[static_cast<size_t>(RdmaEvent::kEndedByHost)], 10'001u);
  for (int i = 0; i < 100; ++i) events.record(RdmaEvent::kEndedByHost, {.host = "d"}, kStart + seconds(1));
  EXPECT_EQ(lines.size(), static_cast<size_t>(RdmaEvents::kBurst + RdmaEvents::kLinesPerSecond));
}

}  // namespace
}  // namespace uroce::nvmf
