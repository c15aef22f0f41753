// Queue pairs that are connected and not used yet: what makes pollers use them, and what becomes of messages
// when there is no memory for that.
#include <gtest/gtest.h>

#include "engine/poller/poller.h"
#include "engine/poller/poller_qp.h"
#include "tests/unit/qp/refused_memory.h"
#include "virtual_pair.h"

namespace uroce::engine {
namespace {

class FirstUse : public testing::Test {
 protected:
  FirstUse() {
    EXPECT_EQ(connect_pair(left, right), 0);
    right.post_receive(64);
    pair.settle();
  }

  static bool is_used(const Side& side) {
    return static_cast<PollerQp&>(side.queue_pair()).queue_pair.used() != nullptr;
  }

  VirtualPair pair;
  Side left{pair.left, 64};
  Side right{pair.right, 64};
};

TEST_F(FirstUse, ConnectedAndPostedReceives_ExpectNone) {
  EXPECT_FALSE(is_used(left));
  EXPECT_FALSE(is_used(right));
}

TEST_F(FirstUse, AMessage_ExpectItAtBothEnds) {
  left.post_send(64);
  EXPECT_FALSE(is_used(left)) << "no poller has heard of it";
  pair.turn(*pair.left_state);
  EXPECT_TRUE(is_used(left));
  EXPECT_FALSE(is_used(right));
  pair.turn(*pair.right_state);
  EXPECT_TRUE(is_used(right));
  pair.settle();
  EXPECT_TRUE(right.look());
  EXPECT_TRUE(left.look());
}

TEST_F(FirstUse, APostWithoutMemory_ExpectItToWait) {
  const uint64_t sent_before = pair.counter(*pair.left_state, Counter::kTxFrames);
  left.post_send(64);
  {
    const qp::testing::RefusedMemory refused;
    for (int turns = 0; turns < 3; ++turns) pair.turn(*pair.left_state);
    EXPECT_FALSE(is_used(left));
    EXPECT_EQ(pair.counter(*pair.left_state, Counter::kTxFrames), sent_before);
    EXPECT_GT(pair.left_state->pollers[0]->time_to_deadline().ns, 0) << "its thread may sleep";
    EXPECT_LE(pair.left_state->pollers[0]->time_to_deadline(), milliseconds(1)) << "and looks again";
  }
  pair.settle();
  EXPECT_TRUE(right.look());
  EXPECT_TRUE(left.look());
}

TEST_F(FirstUse, APacketWithoutMemory_ExpectItLostAndSentAgain) {
  left.post_send(64);
  pair.turn(*pair.left_state);
  {
    const qp::testing::RefusedMemory refused;
    pair.turn(*pair.right_state);
    EXPECT_FALSE(is_used(right));
  }
  EXPECT_EQ(pair.counter(*pair.right_state, Counter::kDropNoMemory), 1u);
  EXPECT_FALSE(right.look());
  pair.settle(milliseconds(5));
  for (int rounds = 0; rounds < 100 && !right.look(); ++rounds) {
    VirtualPair::advance(milliseconds(5));
    pair.turn_all();
  }
  pair.settle();
  EXPECT_TRUE(is_used(right));
  EXPECT_TRUE(left.look());
}

TEST_F(FirstUse, PostedWithoutMemoryAndDestroyed_ExpectTheEnd) {
  left.post_send(64);
  const qp::testing::RefusedMemory refused;
  pair.turn(*pair.left_state);
  EXPECT_FALSE(is_used(left));
  left.disconnect();
}

}  // namespace
}  // namespace uroce::engine
