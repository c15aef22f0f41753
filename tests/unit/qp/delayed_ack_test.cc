// When a queue pair sends the ACKs that its AckPolicy delays (lib/qp/acknowledgement/ack_policy.h).
#include <memory>
#include <utility>

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
    turn.delivery = Delivery::kCall;
    receive(Operation::kSendOnly, next_psn_++, pattern(1), true);
    pump_once(8);
    turn.delivery = Delivery::kNone;
    return take_sent();
  }
  /// A WRITE that comes in a turn which another thread than the application's makes.
  std::vector<Sent> be_written() {
    turn.delivery = Delivery::kBackground;
    receive_write(Operation::kWriteOnly, next_psn_++, 0, 1, pattern(1));
    pump_once(8);
    return take_sent();
  }
  /// Another turn of that thread.
  std::vector<Sent> look_again() {
    turn.delivery = Delivery::kNone;
    pump_once(8);
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
  /// A reply whose own ACK has not come yet; its PSN.
  uint32_t reply_without_ack(std::vector<Sent>* sent = nullptr) {
    call();
    turn.delivery = Delivery::kCall;
    queue_pair->posted(turn);
    post(queue::SendOperation::kWrite, 10);
    auto frames = pump();
    EXPECT_FALSE(frames.empty());
    const uint32_t psn = frames.front().psn();
    if (sent != nullptr) *sent = std::move(frames);
    return psn;
  }
  /// A call that finds a WRITE of the peer's.
  std::vector<Sent> find_write() {
    call();
    turn.delivery = Delivery::kCall;
    receive_write(Operation::kWriteOnly, next_psn_++, 0, 1, pattern(1));
    pump_once(8);
    return take_sent();
  }

  void reply_at_once(uint32_t times) {
    for (; times > 0; --times) {
      hear();
      reply();
    }
  }
  void answer_writes(uint32_t times) {
    call();  // the first, as 0 is none
    for (; times > 0; --times) {
      be_written();
      reply();
    }
  }
  static void expect_ack(const Sent& frame, uint32_t psn) {
    expect_answer(frame, wire::AethKind::kAck, frame.aeth().value, psn);
  }
  /// Of the peer's next packet.
  uint32_t next_psn() { return next_psn_++; }
  void expect_ack_of_newest(const std::vector<Sent>& frames) {
    ASSERT_EQ(frames.size(), 1u);
    expect_ack(frames[0], next_psn_ - 1);
  }

 private:
  uint32_t next_psn_ = 5000;
};

class ReplyingWithCredits : public Replying {
 protected:
  ReplyingWithCredits() {
    transport.credits = true;
    queue_pair = std::make_unique<QueuePairStorage>(options);
  }
};

TEST_F(Replying, TheFirstMessageIsAcknowledgedInTheTurnThatTellsOfIt) {
  bring_up();
  expect_ack_of_newest(hear());
}

TEST_F(Replying, AFewRepliesAreNoHabit) {
  bring_up();
  reply_at_once(PiggybackPredictor::kRepliesMin - 1);
  expect_ack_of_newest(hear());
}

TEST_F(Replying, WhoAlwaysRepliesAtOnceIsWaitedForAndItsReplyOvertakesTheAck) {
  bring_up();
  reply_at_once(PiggybackPredictor::kRepliesMin);
  EXPECT_TRUE(hear().empty());
  const auto frames = reply();
  ASSERT_EQ(frames.size(), 2u);
  EXPECT_EQ(frames[0].operation(), Operation::kSendOnly);
  expect_ack(frames[1], 5000 + PiggybackPredictor::kRepliesMin);
}

TEST_F(ReplyingWithCredits, TheAckLeavesWhenTheReplyHas) {
  bring_up();
  post_receive(10);  // the peer knows of another one
  reply_at_once(PiggybackPredictor::kRepliesMin);
  EXPECT_TRUE(hear().empty());
  ++turn.call;
  queue_pair->posted(turn);
  post(queue::SendOperation::kSend, 10);
  EXPECT_TRUE(pump_once(8)) << "there is more";
  EXPECT_TRUE(std::exchange(turn.answers_follow, false));
  const auto sent = take_sent();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].operation(), Operation::kSendOnly);
  EXPECT_FALSE(pump_once(8));
  expect_ack_of_newest(take_sent());
}

TEST_F(ReplyingWithCredits, AnAckWithThePeersOnlyCreditLeavesTogetherWithTheReply) {
  bring_up();
  reply_at_once(PiggybackPredictor::kRepliesMin);
  EXPECT_TRUE(hear().empty());
  ++turn.call;
  queue_pair->posted(turn);
  post(queue::SendOperation::kSend, 10);
  EXPECT_FALSE(pump_once(8));
  EXPECT_FALSE(turn.answers_follow);
  EXPECT_EQ(take_sent().size(), 2u);
}

TEST_F(Replying, WhoFailsToReplyOnceIsNotWaitedForAnyMore) {
  bring_up();
  reply_at_once(PiggybackPredictor::kRepliesMin);
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
  for (uint32_t i = 0; i < 2 * PiggybackPredictor::kRepliesMin; ++i) {
    expect_ack_of_newest(hear());
    call();
    reply();
  }
}

TEST_F(Replying, WhatIsPostedWithoutAMessageIsNoReply) {
  bring_up();
  for (uint32_t i = 0; i < 2 * PiggybackPredictor::kRepliesMin; ++i) reply();
  expect_ack_of_newest(hear());
}

TEST_F(Replying, AnAckThatWaitsInVainLeavesInTheNextTurn) {
  bring_up();
  for (uint32_t i = 0; i < 3; ++i) {
    reply_at_once(PiggybackPredictor::kRepliesMin);
    EXPECT_TRUE(hear().empty());
    // However it goes on, a turn later it is there.
    turn.delivery = i == 1 ? Delivery::kCall : Delivery::kNone;
    EXPECT_FALSE(i == 2 ? queue_pair->answer(turn, 8) : pump_once(8));
    if (i == 2) tx.consume(port.transmit(tx.frames()));
    expect_ack_of_newest(take_sent());
  }
}

TEST_F(Replying, TheAckOfTheLastMessageLeavesBeforeTheEnd) {
  bring_up();
  reply_at_once(PiggybackPredictor::kRepliesMin);
  EXPECT_TRUE(hear().empty());
  // The process ends after a turn that has delivered something, and no other one follows.
  turn.delivery = Delivery::kCall;
  post_receive(10);
  receive(Operation::kSendOnly, next_psn(), pattern(1), true);
  EXPECT_FALSE(queue_pair->answer(turn, 8));
  tx.consume(port.transmit(tx.frames()));
  expect_ack_of_newest(take_sent());
}

TEST_F(Replying, ADeadlineEndsWhenAResponseTakesThePlaceOfTheAck) {
  bring_up();
  reply_at_once(PiggybackPredictor::kRepliesMin);
  answer_writes(PiggybackPredictor::kRepliesMin);
  EXPECT_TRUE(be_written().empty());
  // The response acknowledges the WRITE.
  receive_read(next_psn(), 0, 8);
  pump_once(8);
  EXPECT_EQ(take_sent().size(), 1u);
  reply();
  // A SEND has no deadline: its ACK leaves in the next turn.
  EXPECT_TRUE(hear().empty());
  call();
  EXPECT_FALSE(pump_once(8));
  expect_ack_of_newest(take_sent());
}

TEST_F(Replying, AWriteThatTheApplicationFindsInItsMemoryIsAcknowledgedBehindTheReply) {
  bring_up();
  answer_writes(PiggybackPredictor::kRepliesMin);
  EXPECT_TRUE(be_written().empty());
  // It may take many turns of others until the application has the CPU.
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(look_again().empty());
  const auto frames = reply();
  ASSERT_EQ(frames.size(), 2u);
  EXPECT_EQ(frames[0].operation(), Operation::kSendOnly);
  expect_ack(frames[1], 5000 + PiggybackPredictor::kRepliesMin);
  EXPECT_TRUE(look_again().empty());
}

TEST_F(Replying, AWriteIsAcknowledgedWithoutAReplyWhenNoneComesInTime) {
  bring_up();
  answer_writes(PiggybackPredictor::kRepliesMin);
  EXPECT_TRUE(be_written().empty());
  advance(microseconds(60));
  expect_ack_of_newest(look_again());
  // The next ones do not wait.
  expect_ack_of_newest(be_written());
}

TEST_F(Replying, AWriteThatIsNotAnsweredAsARuleIsAcknowledgedAtOnce) {
  bring_up();
  answer_writes(PiggybackPredictor::kRepliesMin - 1);
  expect_ack_of_newest(be_written());
}

TEST_F(Replying, WhatIsOwedLeavesBeforeTheEnd) {
  bring_up();
  answer_writes(PiggybackPredictor::kRepliesMin);
  EXPECT_TRUE(be_written().empty());
  EXPECT_FALSE(queue_pair->answer(turn, 8));
  tx.consume(port.transmit(tx.frames()));
  expect_ack_of_newest(take_sent());
}

/// As ib_write_lat does: it posts, polls until its message is acknowledged, and only then looks at its
/// memory, where the peer's reply is already, as that overtakes the ACK.
TEST_F(Replying, AProgramThatWaitsForItsOwnAckFirstRepliesAtOnce) {
  bring_up();
  call();
  uint32_t own = reply_without_ack();
  for (uint32_t i = 0; i < PiggybackPredictor::kRepliesMin; ++i) {
    find_write();
    call();
    receive_ack(own);
    own = reply_without_ack();
  }
  EXPECT_TRUE(find_write().empty());
  for (int i = 0; i < 10; ++i) {
    call();
    pump_once(8);
    EXPECT_TRUE(take_sent().empty()) << "it cannot have replied";
  }
  receive_ack(own);
  std::vector<Sent> frames;
  own = reply_without_ack(&frames);
  ASSERT_EQ(frames.size(), 2u);
  EXPECT_EQ(frames[0].operation(), Operation::kWriteOnly);
  expect_ack(frames[1], 5000 + PiggybackPredictor::kRepliesMin);

  // When nothing comes at all it is not waited for long.
  EXPECT_TRUE(find_write().empty());
  advance(microseconds(60));
  expect_ack_of_newest(look_again());
}

TEST_F(Replying, AProgramThatRepliesACallAfterItsOwnAckHasNoHabit) {
  bring_up();
  call();
  uint32_t own = reply_without_ack();
  for (uint32_t i = 0; i < 2 * PiggybackPredictor::kRepliesMin; ++i) {
    find_write();
    call();
    receive_ack(own);
    call();
    own = reply_without_ack();
  }
  EXPECT_FALSE(find_write().empty());
}

TEST_F(Replying, ASendWhoseCompletionAnotherThreadBringsIsAcknowledgedAtOnce) {
  bring_up();
  reply_at_once(PiggybackPredictor::kRepliesMin);
  post_receive(10);
  turn.delivery = Delivery::kBackground;
  receive(Operation::kSendOnly, 5000 + PiggybackPredictor::kRepliesMin, pattern(1), true);
  EXPECT_FALSE(pump_once(8));
  EXPECT_EQ(take_sent().size(), 1u);
}

}  // namespace
}  // namespace uroce::qp::testing
