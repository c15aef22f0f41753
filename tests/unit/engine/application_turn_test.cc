// The turns that an application's thread makes when it posts and polls: what leaves in which of them.
#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <thread>
#include <utility>

#include "engine/poller/poller.h"
#include "virtual_pair.h"

namespace uroce::engine {
namespace {

/// What had left when the application was told of a completion.
class AtNotification final : public queue::CompletionListener {
 public:
  explicit AtNotification(std::function<uint64_t()> sent) : sent_(std::move(sent)) {}
  void completed(queue::CompletionQueue&) override { seen = sent_(); }

  std::optional<uint64_t> seen;

 private:
  std::function<uint64_t()> sent_;
};

class ApplicationTurn : public testing::Test {
 protected:
  ApplicationTurn() {
    EXPECT_EQ(connect_pair(left, right), 0);
    for (Side* side : {&left, &right}) {
      for (uint64_t i = 0; i < 16; ++i) side->post_receive(64, i);
    }
    pair.settle();
    // No thread has polled the ports for a while.
    VirtualPair::advance(microseconds(100));
    sent_before = sent();
  }

  Poller& poller() { return *pair.right_state->pollers[0]; }
  TurnOutcome poll() { return poller().application_turn(VirtualPair::now()); }
  TurnOutcome turn_for_post() {
    auto& entry = static_cast<PollerQp&>(right.queue_pair());
    return poller().application_turn(VirtualPair::now(), &entry);
  }
  void send_from_left(int count = 1) {
    for (int i = 0; i < count; ++i) left.post_send(64);
    pair.turn(*pair.left_state);
  }
  /// So often that it is expected to go on. `between`: each message and its reply.
  void reply_many_times(const std::function<void()>& between = [] {}) {
    for (uint32_t i = 0; i < qp::PiggybackPredictor::kRepliesMin; ++i) {
      right.post_receive(64, i);
      left.post_receive(64, i);
      send_from_left();
      poll();
      between();
      right.post_send(64);
      turn_for_post();
      pair.turn(*pair.left_state);
      while (right.look()) continue;
      while (left.look()) continue;
    }
    poll();
    while (right.look()) continue;
    sent_before = sent();
  }
  uint64_t sent() { return pair.counter(*pair.right_state, Counter::kTxFrames); }
  uint64_t newly_sent() { return sent() - sent_before; }
  uint64_t received() { return pair.counter(*pair.right_state, Counter::kRxFrames); }

  VirtualPair pair;
  std::function<void()> in_turn = [] {};  // of the owner's, which brings a completion
  AtNotification at_notification{[this] {
    in_turn();
    return newly_sent();
  }};
  Side left{pair.left, 64};
  Side right{pair.right, 64, &at_notification};
  uint64_t sent_before = 0;
};

TEST_F(ApplicationTurn, TheAckOfAMessageLeavesInTheTurnThatTellsOfIt) {
  send_from_left();
  poll();
  EXPECT_EQ(newly_sent(), 1u);
  pair.turn(*pair.left_state);
  EXPECT_TRUE(left.look());
}

TEST_F(ApplicationTurn, TheAckIsThereBeforeAnybodyHearsOfTheMessage) {
  right.completions().arm(false);
  send_from_left();
  poller().turn(VirtualPair::now());  // as a thread of the stack's own does
  EXPECT_EQ(at_notification.seen, 1u);
}

TEST_F(ApplicationTurn, TheAckOfAMessageLeavesWithTheReplyOfOneWhoAlwaysReplies) {
  reply_many_times();
  send_from_left();
  EXPECT_EQ(poll(), TurnOutcome::kWorked);
  ASSERT_TRUE(right.look());
  EXPECT_EQ(newly_sent(), 0u);
  right.post_send(64);
  EXPECT_EQ(turn_for_post(), TurnOutcome::kWorked);
  EXPECT_EQ(newly_sent(), 2u);
  pair.turn(*pair.left_state);
  // Its own end and the reply's.
  EXPECT_TRUE(left.look());
  EXPECT_TRUE(left.look());
  EXPECT_EQ(pair.counter(*pair.right_state, Counter::kTxNoBuffer), 0u) << "it waited for nothing";
}

TEST_F(ApplicationTurn, TheAckOfAWriteLeavesWithTheReplyOfOneThatAlwaysReplies) {
  for (uint32_t i = 0; i <= qp::PiggybackPredictor::kRepliesMin; ++i) {
    left.post_write(right, 64);
    pair.turn(*pair.left_state);
    sent_before = sent();
    poll();
    EXPECT_EQ(newly_sent(), i < qp::PiggybackPredictor::kRepliesMin ? 1u : 0u);
    right.post_write(left, 64);
    turn_for_post();
    EXPECT_EQ(newly_sent(), 2u);
    pair.turn(*pair.left_state);
    EXPECT_TRUE(left.look());
    poll();
    EXPECT_TRUE(right.look());
  }
  // Replies to WRITEs are none to SENDs.
  sent_before = sent();
  send_from_left();
  poll();
  EXPECT_EQ(newly_sent(), 1u);
}

TEST_F(ApplicationTurn, WritesThatAreNotRepliedToLeaveTheHabitOfTheOthers) {
  reply_many_times();
  for (int i = 0; i < 3; ++i) {
    left.post_write(right, 64);
    pair.turn(*pair.left_state);
    poll();
  }
  sent_before = sent();
  send_from_left();
  poll();
  EXPECT_EQ(newly_sent(), 0u);
}

TEST_F(ApplicationTurn, TheAckWaitsForOneTurnOnly) {
  reply_many_times();
  send_from_left();
  poll();
  EXPECT_EQ(newly_sent(), 0u);
  EXPECT_EQ(poll(), TurnOutcome::kWorked);
  EXPECT_EQ(newly_sent(), 1u);

  // Also when each turn brings another message.
  reply_many_times();
  send_from_left();
  poll();
  EXPECT_EQ(newly_sent(), 0u);
  send_from_left();
  poll();
  EXPECT_EQ(newly_sent(), 1u) << "of both";
}

TEST_F(ApplicationTurn, TurnsOfOthersDoNotHideThatTheApplicationReplies) {
  reply_many_times([this] { poller().turn(VirtualPair::now()); });
  send_from_left();
  poll();
  EXPECT_EQ(newly_sent(), 0u);
}

TEST_F(ApplicationTurn, WhoeverWillNotHearOfTheMessageAcknowledgesAtOnce) {
  send_from_left();
  poller().turn(VirtualPair::now());  // as the background thread does
  EXPECT_EQ(newly_sent(), 1u);
}

TEST_F(ApplicationTurn, WhatTheApplicationIsNotToldOfIsAcknowledgedAtOnce) {
  left.post_write(right, 64);
  pair.turn(*pair.left_state);
  poll();
  EXPECT_EQ(newly_sent(), 1u);
}

TEST_F(ApplicationTurn, AMessageAmongManyIsAcknowledgedAtOnce) {
  send_from_left(8);
  poll();
  EXPECT_EQ(newly_sent(), 1u);
}

TEST_F(ApplicationTurn, TheEndOfThePollerAcknowledgesWhatTheApplicationWasToldOf) {
  reply_many_times();
  send_from_left();
  poll();
  EXPECT_EQ(newly_sent(), 0u);
  EXPECT_TRUE(poller().close(Duration{}));
  EXPECT_EQ(newly_sent(), 1u);
  pair.turn(*pair.left_state);
  const auto completion = left.look();
  ASSERT_TRUE(completion);
  EXPECT_EQ(completion->status, queue::CompletionStatus::kSuccess);
}

TEST_F(ApplicationTurn, TheEndOfThePollerAcknowledgesWhatCameBehindTheLastCall) {
  reply_many_times();
  send_from_left();
  poll();
  right.post_send(64);
  turn_for_post();
  pair.turn(*pair.left_state);
  poll();  // which brings the ACK of the reply
  sent_before = sent();
  send_from_left();
  EXPECT_TRUE(poller().close(Duration{}));
  EXPECT_EQ(newly_sent(), 1u);
}

TEST_F(ApplicationTurn, TheEndOfTheQueuePairAcknowledgesWhatTheApplicationWasToldOf) {
  reply_many_times();
  send_from_left();
  poll();
  EXPECT_EQ(newly_sent(), 0u);
  right.disconnect();
  EXPECT_EQ(newly_sent(), 1u);
}

TEST_F(ApplicationTurn, WhatWasPostedLeavesBeforeTheEndOfItsQueuePair) {
  right.post_send(64);
  // As a post does that finds another thread in a turn.
  poller().ring(static_cast<PollerQp&>(right.queue_pair()));
  right.disconnect();
  EXPECT_EQ(newly_sent(), 1u);
}

TEST_F(ApplicationTurn, PostingLooksAtThePortOnlyWhenNoTurnDidForAWhile) {
  poll();
  const uint64_t before = received();
  send_from_left();
  right.post_send(64);
  turn_for_post();
  EXPECT_EQ(received(), before);
  EXPECT_EQ(newly_sent(), 1u);
  pair.turn(*pair.left_state);  // acknowledges it
  poll();
  EXPECT_EQ(received(), before + 2);
  send_from_left();
  VirtualPair::advance(microseconds(3));
  right.post_send(64);
  turn_for_post();
  EXPECT_EQ(received(), before + 3);
}

TEST_F(ApplicationTurn, PostingLooksAtThePortWhereAnAnswerMayBe) {
  poll();
  right.post_send(64);
  turn_for_post();
  pair.turn(*pair.left_state);
  right.post_send(64);
  turn_for_post();
  EXPECT_TRUE(right.look()) << "of the first";
}

TEST_F(ApplicationTurn, WhoUsesTheOtherEndLeavesAnEndAloneWhoseOwnerIsThere) {
  // Every turn of the owner's takes longer than it takes to be thought away.
  constexpr Duration kLongTurn = microseconds(30);
  for (int turns = 0; turns < 5; ++turns) {
    poll();
    VirtualPair::advance(kLongTurn);
    send_from_left();
    EXPECT_EQ(poller().partner_turn(VirtualPair::now()), TurnOutcome::kIdle);
  }
}

TEST_F(ApplicationTurn, WhoUsesTheOtherEndTurnsOneWhoseOwnerIsAway) {
  const uint64_t before = received();
  poll();
  send_from_left();
  EXPECT_EQ(poller().partner_turn(VirtualPair::now()), TurnOutcome::kIdle);
  VirtualPair::advance(microseconds(19));
  EXPECT_EQ(poller().partner_turn(VirtualPair::now()), TurnOutcome::kIdle);
  VirtualPair::advance(microseconds(1));
  EXPECT_EQ(poller().partner_turn(VirtualPair::now()), TurnOutcome::kWorked);
  EXPECT_EQ(received(), before + 1);
  // Until the application is back.
  send_from_left();
  EXPECT_EQ(poller().partner_turn(VirtualPair::now()), TurnOutcome::kWorked);
  poll();
  send_from_left();
  EXPECT_EQ(poller().partner_turn(VirtualPair::now()), TurnOutcome::kIdle);
}

TEST_F(ApplicationTurn, WhoUsesTheOtherEndDoesNotTakeAnotherOneForItsOwner) {
  poll();
  EXPECT_EQ(poller().partner_turn(VirtualPair::now()), TurnOutcome::kIdle);
  VirtualPair::advance(microseconds(30));
  send_from_left();
  ASSERT_TRUE(poller().lock().begin());
  EXPECT_EQ(poller().partner_turn(VirtualPair::now()), TurnOutcome::kBusy);
  poller().lock().end();
  EXPECT_EQ(poller().partner_turn(VirtualPair::now()), TurnOutcome::kWorked);
}

TEST_F(ApplicationTurn, WhoUsesTheOtherEndLeavesAnEndAloneWhoseOwnerIsInATurn) {
  poll();
  EXPECT_EQ(poller().partner_turn(VirtualPair::now()), TurnOutcome::kIdle);
  VirtualPair::advance(microseconds(30));
  TurnOutcome outcome = TurnOutcome::kWorked;
  in_turn = [&] {
    std::thread([&] { outcome = poller().partner_turn(VirtualPair::now()); }).join();
    send_from_left();
  };
  right.completions().arm(false);
  send_from_left();
  poll();
  in_turn = [] {};
  EXPECT_EQ(outcome, TurnOutcome::kBusy);
  EXPECT_EQ(poller().partner_turn(VirtualPair::now()), TurnOutcome::kIdle);
}

}  // namespace
}  // namespace uroce::engine
