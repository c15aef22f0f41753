// Queue pairs that wait for other pollers: what comes for them meanwhile waits too, and loses nothing of its
// order.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "bound_region.h"
#include "engine/poller/turn_lock.h"
#include "virtual_pair.h"

namespace uroce::engine {
namespace {

using queue::CompletionStatus;
using queue::SendOperation;

constexpr size_t kBytes = 250'000;
constexpr uint32_t kMtu = 1024;

void connect(Side& a, Side& b) { ASSERT_EQ(connect_pair(a, b), 0); }

/// Another poller of the right device may stand in the middle of a turn. Here it is no more than its lock.
class Stalled : public ::testing::Test {
 protected:
  Stalled() : watched{pair, other_poller}, left{pair.left, kBytes}, right{pair.right, kBytes} {}

  void run(int turns = 200) {
    for (int i = 0; i < turns; ++i) {
      VirtualPair::advance(microseconds(1));
      pair.turn_all();
    }
  }
  uint64_t lost() {
    return pair.counter(*pair.right_state, Counter::kDropSequence) +
           pair.counter(*pair.left_state, Counter::kRetransmittedPackets);
  }

  TurnLock other_poller;
  VirtualPair pair;
  // Before there are queue pairs, which ask how many pollers there are.
  struct Watched {
    Watched(VirtualPair& of, TurnLock& lock) {
      of.right_state->quiescence.watch(lock);
      ++of.right_state->transport.pollers;
    }
  } watched;
  Side left;
  Side right;
};

TEST_F(Stalled, BySendWithInvalidate_ExpectWhatFollowsToWaitInOrder) {
  connect(left, right);
  BoundRegion region(right);
  fill(left.buffer(), 3);
  right.post_receive(0, 1);
  right.post_receive(100, 2);
  ASSERT_TRUE(other_poller.begin());
  post_invalidation(left, SendOperation::kSendInvalidate, region.key());
  left.post_send(100, 8);
  left.post_write(right, kBytes, 9);
  run();
  EXPECT_FALSE(left.look());
  EXPECT_FALSE(right.look());
  EXPECT_EQ(region.unmap(), EBUSY);
  other_poller.end();
  pair.settle();

  const auto invalidated = right.look();
  ASSERT_TRUE(invalidated);
  EXPECT_TRUE(invalidated->has_invalidated);
  EXPECT_EQ(invalidated->immediate, region.key().value);
  const auto received = right.look();
  ASSERT_TRUE(received);
  EXPECT_EQ(received->wr_id, 2u);
  for (int i = 0; i < 3; ++i) {
    const auto completion = left.look();
    ASSERT_TRUE(completion);
    EXPECT_EQ(completion->status, CompletionStatus::kSuccess);
  }
  EXPECT_EQ(left.buffer(), right.buffer());
  EXPECT_EQ(lost(), 0u);
}

TEST_F(Stalled, ByLocalInvalidate_ExpectItsEndWithTheTurnOfTheOther) {
  connect(left, right);
  BoundRegion region(right);
  ASSERT_TRUE(other_poller.begin());
  post_invalidation(right, SendOperation::kLocalInvalidate, region.key());
  run(1);
  left.post_write(right, 10 * kMtu);
  run();
  EXPECT_FALSE(right.look());
  EXPECT_FALSE(left.look());
  other_poller.end();
  pair.settle();
  EXPECT_EQ(right.look().value().status, CompletionStatus::kSuccess);
  EXPECT_EQ(left.look().value().status, CompletionStatus::kSuccess);
  EXPECT_EQ(lost(), 0u);
}

/// There is room for so many only; the rest is lost as on the wire, and comes again.
TEST_F(Stalled, MoreThanCanWait_ExpectItSentAgain) {
  Side left_too(pair.left, kBytes);
  Side too(pair.right, kBytes);
  connect(left, right);
  connect(left_too, too);
  BoundRegion region(right);
  BoundRegion region_too(too);
  fill(left.buffer(), 5);
  fill(left_too.buffer(), 6);
  right.post_receive(0);
  too.post_receive(0);
  ASSERT_TRUE(other_poller.begin());
  post_invalidation(left, SendOperation::kSendInvalidate, region.key());
  post_invalidation(left_too, SendOperation::kSendInvalidate, region_too.key());
  left.post_write(right, kBytes);
  left_too.post_write(too, kBytes);
  run();
  EXPECT_GT(pair.counter(*pair.right_state, Counter::kDropStalled), 0u);
  other_poller.end();
  for (int i = 0; i < 1000; ++i) {
    VirtualPair::advance(milliseconds(1));
    pair.turn_all();
  }
  EXPECT_EQ(left.buffer(), right.buffer());
  EXPECT_EQ(left_too.buffer(), too.buffer());
}

/// The queue pair ends while it is stalled and frames for it wait.
TEST_F(Stalled, DestroyedMeanwhile_ExpectTheRegionFree) {
  auto gone = std::make_unique<Side>(pair.right, kBytes);
  Side far(pair.left, kBytes);
  connect(far, *gone);
  BoundRegion region(*gone);
  gone->post_receive(0);
  ASSERT_TRUE(other_poller.begin());
  post_invalidation(far, SendOperation::kSendInvalidate, region.key());
  far.post_write(*gone, 20 * kMtu);
  run();
  other_poller.end();
  EXPECT_EQ(region.unmap(), EBUSY);
  gone.reset();
  EXPECT_EQ(region.unmap(), 0);
  run();
}

}  // namespace
}  // namespace uroce::engine
