// ACKs of messages that the application hears of: they leave in the turn that tells of them, unless a reply
// may be expected.
#include "tests/unit/qp/fixture.h"

namespace uroce::qp::testing {
namespace {

using wire::Operation;

class Replying : public QueuePairTest {
 protected:
  /// A call of the application that brings the next message, and what has left when it returns.
  std::vector<Sent> hear() {
    post_receive(10);
    ++turn.call;
    turn.replies_may_follow = true;
    receive(Operation::kSendOnly, next_psn_++, pattern(1), true);
    pump_once(8);
    turn.replies_may_follow = false;
    return take_sent();
  }
  /// A call that posts a reply.
  std::vector<Sent> reply() {
    ++turn.call;
    queue_pair->posted(turn);
    post(queue::SendOperation::kSend, 10);
    auto frames = pump();
    if (!frames.empty()) receive_ack(frames.front().psn());
    return frames;
  }
  /// A call for something else.
  void call() { ++turn.call; }

  void reply_at_once(uint32_t times) {
    for (; times > 0; --times) {
      hear();
      reply();
    }
  }
  static void expect_ack(const Sent& frame, uint32_t psn) {
    expect_answer(frame, wire::AethKind::kAck, frame.aeth().value, psn);
  }
  void expect_ack_of_newest(const std::vector<Sent>& frames) {
    ASSERT_EQ(frames.size(), 1u);
    expect_ack(frames[0], next_psn_ - 1);
  }

 private:
  uint32_t next_psn_ = 5000;
};

TEST_F(Replying, TheFirstMessageIsAcknowledgedInTheTurnThatTellsOfIt) {
  bring_up();
  expect_ack_of_newest(hear());
}

TEST_F(Replying, AFewRepliesAreNoHabit) {
  bring_up();
  reply_at_once(ReplyHabit::kRepliesMin - 1);
  expect_ack_of_newest(hear());
}

TEST_F(Replying, WhoAlwaysRepliesAtOnceIsWaitedForAndItsReplyOvertakesTheAck) {
  bring_up();
  reply_at_once(ReplyHabit::kRepliesMin);
  EXPECT_TRUE(hear().empty());
  const auto frames = reply();
  ASSERT_EQ(frames.size(), 2u);
  EXPECT_EQ(frames[0].operation(), Operation::kSendOnly);
  expect_ack(frames[1], 5000 + ReplyHabit::kRepliesMin);
}

TEST_F(Replying, WhoFailsToReplyOnceIsNotWaitedForAnyMore) {
  bring_up();
  reply_at_once(ReplyHabit::kRepliesMin);
  EXPECT_TRUE(hear().empty());
  // In the next turn at the latest it is there.
  call();
  EXPECT_FALSE(pump_once(8));
  expect_ack_of_newest(take_sent());
  EXPECT_FALSE(hear().empty());
  reply_at_once(1);
  EXPECT_FALSE(hear().empty());
}

TEST_F(Replying, ALateReplyIsNone) {
  bring_up();
  for (uint32_t i = 0; i < 2 * ReplyHabit::kRepliesMin; ++i) {
    expect_ack_of_newest(hear());
    call();
    reply();
  }
}

TEST_F(Replying, WhatIsPostedWithoutAMessageIsNoReply) {
  bring_up();
  for (uint32_t i = 0; i < 2 * ReplyHabit::kRepliesMin; ++i) reply();
  expect_ack_of_newest(hear());
}

TEST_F(Replying, AnAckThatWaitsInVainLeavesInTheNextTurn) {
  bring_up();
  for (uint32_t i = 0; i < 3; ++i) {
    reply_at_once(ReplyHabit::kRepliesMin);
    EXPECT_TRUE(hear().empty());
    // However it goes on, a turn later it is there.
    turn.replies_may_follow = i == 1;
    EXPECT_FALSE(i == 2 ? queue_pair->answer(turn, 8) : pump_once(8));
    if (i == 2) tx.consume(port.transmit(tx.frames()));
    expect_ack_of_newest(take_sent());
  }
}

}  // namespace
}  // namespace uroce::qp::testing
