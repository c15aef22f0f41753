// AckPolicy by its events alone, without a queue pair.
#include "qp/acknowledgement/ack_policy.h"

#include <gtest/gtest.h>

#include <ostream>

namespace uroce::qp {

void PrintTo(AckTime time, std::ostream* out) {
  static constexpr const char* kNames[] = {"not at all", "with data", "at a deadline", "after data", "now"};
  *out << kNames[static_cast<unsigned>(time)];
}

namespace {

constexpr AckPolicy::Packet kSend{.ends = true, .completes = true, .ack_requested = true};
constexpr AckPolicy::Packet kWrite{.ends = true, .completes = false, .ack_requested = true};
constexpr uint32_t kPredicted = PiggybackPredictor::kRepliesMin;

class AckPolicyTest : public testing::Test {
 protected:
  /// In a call of the application, unless another delivery is set before.
  void deliver(const AckPolicy::Packet& packet) {
    policy.delivered(packet, delivery, call, [&]() -> AckPolicy::Circumstances {
      ++asked;
      return {.now = now, .data_unacknowledged = data_unacknowledged, .credit_wanted = credit_wanted};
    });
  }
  AckTime due() { return policy.due(now, delivery); }
  /// A turn that brings nothing; what due() says in it.
  AckTime look() {
    delivery = Delivery::kNone;
    return due();
  }
  /// The next call of the application, which posts; what due() says in its turn.
  AckTime post() {
    policy.posted(++call);
    return look();
  }
  /// The ACK leaves.
  void acknowledge() { policy.settled(); }

  /// The application replies to so many messages at once.
  void reply_to(const AckPolicy::Packet& packet, uint32_t times = kPredicted) {
    for (; times > 0; --times) {
      ++call;
      delivery = Delivery::kCall;
      deliver(packet);
      acknowledge();
      post();
    }
    ++call;
    delivery = Delivery::kCall;
  }

  AckPolicy policy;
  Instant now{seconds(1).ns};
  uint64_t call = 1;  // 0 is none
  Delivery delivery = Delivery::kCall;
  bool data_unacknowledged = false;
  bool credit_wanted = false;
  int asked = 0;  // for the circumstances
};

TEST_F(AckPolicyTest, NothingIsOwedAtFirst) {
  EXPECT_FALSE(policy.owes());
  EXPECT_EQ(due(), AckTime::kNotAtAll);
}

TEST_F(AckPolicyTest, AMessageIsAcknowledgedAtOnceIfNoReplyIsPredicted) {
  for (const AckPolicy::Packet& packet : {kSend, kWrite}) {
    deliver(packet);
    EXPECT_EQ(due(), AckTime::kNow);
    EXPECT_EQ(due(), AckTime::kNow) << "no buffer was free";
    acknowledge();
    EXPECT_EQ(due(), AckTime::kNotAtAll);
  }
  EXPECT_EQ(asked, 0);
}

TEST_F(AckPolicyTest, WhatAsksForNoAckGetsNone) {
  reply_to(kSend);
  deliver({.ends = true, .completes = true});
  deliver({});
  EXPECT_EQ(due(), AckTime::kNotAtAll);
}

TEST_F(AckPolicyTest, OnlyTheEndOfAMessageHasAReply) {
  reply_to(kSend);
  deliver({.ends = false, .completes = true, .ack_requested = true});
  EXPECT_EQ(due(), AckTime::kNow);
}

TEST_F(AckPolicyTest, SixtyThreeRepliesAreNoPrediction) {
  reply_to(kSend, kPredicted - 1);
  deliver(kSend);
  EXPECT_EQ(due(), AckTime::kNow);
}

TEST_F(AckPolicyTest, ADelayedAckLeavesAfterTheReply) {
  reply_to(kSend);
  deliver(kSend);
  EXPECT_EQ(due(), AckTime::kWithData);
  EXPECT_EQ(policy.data_built(false), AckTime::kWithData);
  EXPECT_EQ(post(), AckTime::kWithData);
  EXPECT_EQ(policy.data_built(true), AckTime::kAfterData);
  EXPECT_EQ(due(), AckTime::kNow);
  acknowledge();
  EXPECT_FALSE(policy.owes());
}

TEST_F(AckPolicyTest, ADelayedAckLeavesInTheNextTurnWithoutAReply) {
  reply_to(kSend);
  deliver(kSend);
  EXPECT_EQ(due(), AckTime::kWithData);
  EXPECT_EQ(look(), AckTime::kWithData);
  EXPECT_EQ(policy.data_built(false), AckTime::kNow);
}

TEST_F(AckPolicyTest, AnAckThatWasNotAskedForInItsTurnIsNotDelayedInTheNext) {
  reply_to(kSend);
  deliver(kSend);
  EXPECT_EQ(look(), AckTime::kNow);
}

TEST_F(AckPolicyTest, AnAckWithThePeersOnlyCreditLeavesInTheBurstOfTheReply) {
  reply_to(kSend);
  credit_wanted = true;
  deliver(kSend);
  EXPECT_EQ(due(), AckTime::kWithData);
  EXPECT_EQ(post(), AckTime::kWithData);
  EXPECT_EQ(policy.data_built(true), AckTime::kNow);
}

TEST_F(AckPolicyTest, AMessageWithoutAReplyEndsThePrediction) {
  reply_to(kSend);
  deliver(kSend);
  acknowledge();
  ++call;
  deliver(kSend);
  EXPECT_EQ(due(), AckTime::kNow);
}

TEST_F(AckPolicyTest, RepliesOfTheCallAfterTheNextOneAreLate) {
  for (uint32_t i = 0; i < 2 * kPredicted; ++i) {
    delivery = Delivery::kCall;
    deliver(kSend);
    ASSERT_EQ(due(), AckTime::kNow);
    acknowledge();
    ++call;
    post();
  }
}

TEST_F(AckPolicyTest, ReplyingAfterTheOwnAcknowledgementIsAtOnce) {
  for (uint32_t i = 0; i < kPredicted; ++i) {
    delivery = Delivery::kCall;
    deliver(kWrite);
    acknowledge();
    call += 5;
    policy.own_acknowledged(call);
    post();
  }
  delivery = Delivery::kCall;
  deliver(kWrite);
  EXPECT_EQ(due(), AckTime::kWithData);
}

TEST_F(AckPolicyTest, WritesAndCompletionsArePredictedApart) {
  reply_to(kSend);
  deliver(kWrite);
  EXPECT_EQ(due(), AckTime::kNow);
  acknowledge();
  reply_to(kWrite);
  deliver(kWrite);
  EXPECT_EQ(due(), AckTime::kWithData);
  acknowledge();
  post();
  delivery = Delivery::kCall;
  deliver(kSend);
  EXPECT_EQ(due(), AckTime::kWithData) << "it is unchanged";
}

TEST_F(AckPolicyTest, AWriteOfABackgroundThreadHasADeadline) {
  reply_to(kWrite);
  delivery = Delivery::kBackground;
  deliver(kWrite);
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(due(), AckTime::kAtDeadline);
    EXPECT_EQ(policy.data_built(false), AckTime::kAtDeadline);
  }
  EXPECT_EQ(post(), AckTime::kAtDeadline);
  EXPECT_EQ(policy.data_built(true), AckTime::kAfterData);
}

TEST_F(AckPolicyTest, ADeadlineThatPassesHalvesThePrediction) {
  reply_to(kWrite);
  delivery = Delivery::kBackground;
  deliver(kWrite);
  now = now + AckPolicy::kDelayMax - nanoseconds(1);
  EXPECT_EQ(due(), AckTime::kAtDeadline);
  now = now + nanoseconds(1);
  EXPECT_EQ(due(), AckTime::kNow);
  EXPECT_EQ(due(), AckTime::kNow) << "and halves it once";
  acknowledge();
  post();  // a reply all the same, though late
  reply_to(kWrite, kPredicted / 2 - 2);
  deliver(kWrite);
  EXPECT_EQ(due(), AckTime::kNow);
  acknowledge();
  post();
  delivery = Delivery::kCall;
  deliver(kWrite);
  EXPECT_EQ(due(), AckTime::kWithData);
}

TEST_F(AckPolicyTest, ASendOfABackgroundThreadIsAcknowledgedAtOnce) {
  reply_to(kSend);
  delivery = Delivery::kBackground;
  deliver(kSend);
  EXPECT_EQ(due(), AckTime::kNow);
}

TEST_F(AckPolicyTest, AWriteBesideAnUnacknowledgedMessageHasADeadline) {
  reply_to(kWrite);
  data_unacknowledged = true;
  deliver(kWrite);
  EXPECT_EQ(due(), AckTime::kAtDeadline);
  EXPECT_EQ(look(), AckTime::kAtDeadline);
  acknowledge();
  post();
  reply_to(kSend);
  deliver(kSend);
  EXPECT_EQ(due(), AckTime::kWithData) << "a SEND has none";
}

TEST_F(AckPolicyTest, LongBurstsAreAcknowledgedAtOnce) {
  EXPECT_EQ(AckPolicy::delivery_of(0, true), Delivery::kCall);
  EXPECT_EQ(AckPolicy::delivery_of(AckPolicy::kDelayedBurstMax, true), Delivery::kCall);
  EXPECT_EQ(AckPolicy::delivery_of(AckPolicy::kDelayedBurstMax, false), Delivery::kBackground);
  EXPECT_EQ(AckPolicy::delivery_of(AckPolicy::kDelayedBurstMax + 1, true), Delivery::kNone);
  EXPECT_EQ(AckPolicy::delivery_of(AckPolicy::kDelayedBurstMax + 1, false), Delivery::kNone);
  reply_to(kSend);
  delivery = Delivery::kNone;
  deliver(kSend);
  EXPECT_EQ(due(), AckTime::kNow);
}

TEST_F(AckPolicyTest, WhatIsNotDelayedTakesTheDelayedAckAlong) {
  reply_to(kWrite);
  delivery = Delivery::kBackground;
  deliver(kWrite);
  deliver(kSend);
  EXPECT_EQ(due(), AckTime::kNow);
  acknowledge();
  delivery = Delivery::kBackground;
  deliver(kWrite);
  policy.require();
  EXPECT_EQ(due(), AckTime::kNow);
}

TEST_F(AckPolicyTest, ADelayedPacketDoesNotHoldBackTheAckOfAnEarlierOne) {
  reply_to(kWrite);
  deliver(kSend);
  deliver(kWrite);
  EXPECT_EQ(due(), AckTime::kNow);
}

TEST_F(AckPolicyTest, AResponseSettlesADelayedAckWithItsDeadline) {
  reply_to(kSend);
  reply_to(kWrite);
  delivery = Delivery::kBackground;
  deliver(kWrite);
  EXPECT_EQ(due(), AckTime::kAtDeadline);
  acknowledge();
  post();
  delivery = Delivery::kCall;
  deliver(kSend);
  EXPECT_EQ(due(), AckTime::kWithData);
}

TEST_F(AckPolicyTest, AtTheEndWhatIsOwedLeaves) {
  policy.ends();
  EXPECT_FALSE(policy.owes());
  reply_to(kSend);
  deliver(kSend);
  policy.ends();
  EXPECT_EQ(due(), AckTime::kNow) << "in its first turn";
  acknowledge();
  reply_to(kWrite);
  delivery = Delivery::kBackground;
  deliver(kWrite);
  EXPECT_EQ(due(), AckTime::kAtDeadline);
  policy.ends();
  EXPECT_EQ(due(), AckTime::kNow) << "before its deadline";
}

TEST_F(AckPolicyTest, OnAnotherPollerDeadlinesAreOnItsClockAndCallsAreCountedAnew) {
  reply_to(kWrite);
  delivery = Delivery::kBackground;
  deliver(kWrite);
  policy.moved(seconds(10));
  now = now + seconds(10);
  EXPECT_EQ(due(), AckTime::kAtDeadline);
  now = now + AckPolicy::kDelayMax;
  EXPECT_EQ(due(), AckTime::kNow);
  acknowledge();
  // A message of the old poller has no reply here.
  call = 1;
  post();
  reply_to(kWrite, kPredicted / 2);
  deliver(kWrite);
  EXPECT_EQ(due(), AckTime::kWithData);
}

TEST_F(AckPolicyTest, TheNumbersOfCallsWrapAround) {
  call = (uint64_t{1} << 32) - kPredicted;
  reply_to(kSend);
  EXPECT_GT(call, uint64_t{1} << 32);
  deliver(kSend);
  EXPECT_EQ(due(), AckTime::kWithData);
}

}  // namespace
}  // namespace uroce::qp
