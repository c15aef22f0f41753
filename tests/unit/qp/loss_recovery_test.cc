#include "qp/recovery/transport_timers.h"
#include "tests/unit/qp/fixture.h"

namespace uroce::qp::testing {
namespace {

using queue::CompletionStatus;
using queue::SendOperation;
using wire::NakCode;

using Retransmit = QueuePairTest;

TEST(TransportTimers, AckTimeoutDoublesPerCode) {
  EXPECT_EQ(ack_timeout(1), nanoseconds(8192));
  EXPECT_EQ(ack_timeout(14), nanoseconds(67'108'864));
  EXPECT_EQ(ack_timeout(31), nanoseconds(int64_t{4096} << 31));
}

TEST(TransportTimers, RnrCodesAreThoseOfTheTable) {
  EXPECT_EQ(rnr_wait(0), microseconds(655'360));
  EXPECT_EQ(rnr_wait(1), microseconds(10));
  EXPECT_EQ(rnr_wait(12), microseconds(640));
  EXPECT_EQ(rnr_wait(25), microseconds(61'440));
  EXPECT_EQ(rnr_wait(31), microseconds(491'520));
}

TEST_F(Retransmit, NoTimerRunsWhenNothingIsUnanswered) {
  bring_up();
  EXPECT_EQ(queue_pair->deadline(), kNever);
  post(SendOperation::kSend, 1);
  pump();
  EXPECT_EQ(queue_pair->deadline(), turn.now + ack_timeout(10));
  receive_ack(100);
  EXPECT_EQ(queue_pair->deadline(), kNever);
}

TEST_F(Retransmit, AnEarlyExpireDoesNothing) {
  bring_up();
  post(SendOperation::kSend, 1);
  pump();
  queue_pair->expire(turn);
  EXPECT_TRUE(pump().empty());
  EXPECT_EQ(counter(Counter::kAckTimeout), 0u);
}

TEST_F(Retransmit, WhatWasAnsweredMeanwhileIsNotSentAgain) {
  bring_up();
  for (int i = 0; i < 3; ++i) post(SendOperation::kSend, 1);
  pump();
  expire();
  pump();            // 100 again
  receive_ack(102);  // the first ones had arrived
  EXPECT_TRUE(pump().empty());
  EXPECT_EQ(send_completions().size(), 3u);
  EXPECT_EQ(queue_pair->deadline(), kNever);
  post(SendOperation::kSend, 1);
  const auto frames = pump();
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_EQ(frames[0].psn(), 103u);
}

/// "allowed reaction time: between T and 4T" (lib/README.md, wire fact 7).
TEST_F(Retransmit, ASilentPeerIsGivenMoreTimeWithEachRetry) {
  attributes.retry_count = 7;
  bring_up();
  post(SendOperation::kSend, 1);
  pump();
  for (const int64_t patience : {1, 2, 4, 4, 4, 4, 4, 4}) {
    EXPECT_EQ(queue_pair->deadline(), turn.now + ack_timeout(10) * patience);
    expire();
    pump();
  }
  expect_failed_send(CompletionStatus::kRetryExceeded);
}

TEST_F(Retransmit, APeerThatIsHeardOfIsSilentNoMore) {
  bring_up();
  post(SendOperation::kSend, 1);
  post(SendOperation::kSend, 1);
  post(SendOperation::kSend, 1);
  const auto be_silent_twice = [&] {
    pump();
    expire();
    pump();
    expire();
    pump();
    EXPECT_EQ(queue_pair->deadline(), turn.now + ack_timeout(10) * 4);
  };
  be_silent_twice();
  receive_ack(100);
  pump();
  EXPECT_EQ(queue_pair->deadline(), turn.now + ack_timeout(10));
  be_silent_twice();
  receive_ack(100);  // late, and for what was answered before
  EXPECT_EQ(queue_pair->deadline(), turn.now + ack_timeout(10));
  expire();
  pump();
  EXPECT_EQ(queue_pair->deadline(), turn.now + ack_timeout(10) * 2);
  receive_rnr(12, 101);
  expire();
  pump();
  EXPECT_EQ(queue_pair->deadline(), turn.now + ack_timeout(10));
}

TEST_F(Retransmit, APeerThatAnswersWhatItGotTwiceIsNotSilent) {
  bring_up();
  post(SendOperation::kSend, 1);
  post(SendOperation::kSend, 1);
  pump();
  receive_ack(100);
  EXPECT_EQ(send_completions().size(), 1u);
  expire();
  pump();
  for (int i = 0; i < 20; ++i) {
    advance(milliseconds(4));  // just short of the timeout
    queue_pair->expire(turn);
    receive_ack(100);  // an answer to an earlier packet that the network had held back
    EXPECT_EQ(queue_pair->deadline(), turn.now + ack_timeout(10));
  }
  EXPECT_EQ(counter(Counter::kAckTimeout), 1u);
  for (int i = 0; i < 3; ++i) {  // retry_count, one of which is gone
    EXPECT_EQ(queue_pair->state(), State::kRts);
    expire();
    pump();
  }
  expect_failed_send(CompletionStatus::kRetryExceeded);
}

TEST_F(Retransmit, AnEchoStartsNoTimer) {
  bring_up();
  post(SendOperation::kSend, 1);
  pump();
  receive_ack(100);
  receive_ack(100);
  EXPECT_EQ(queue_pair->deadline(), kNever);
}

TEST_F(Retransmit, APeerThatLosesIsGivenLessAtATime) {
  attributes.retry_count = 7;
  bring_up();
  post(SendOperation::kWrite, 1000 * kMtu);
  EXPECT_EQ(pump().size(), SendWindow::kPackets);
  uint32_t oldest = 100;
  for (const uint32_t expected : {128u, 64u, 32u}) {
    receive_nak(NakCode::kSequenceError, oldest += 2);  // all before it arrived
    EXPECT_EQ(pump().at(0).psn(), oldest);
    receive_ack(oldest);  // and nothing of what followed it
    EXPECT_EQ(pump().size(), expected);
  }
  // After so many trials the peer is known to keep nothing.
  receive_nak(NakCode::kSequenceError, oldest += 2);
  EXPECT_EQ(pump().size(), 32u);
  // One packet more for every eight that were answered.
  receive_ack(oldest + 31);
  EXPECT_EQ(pump().size(), 32u + 4u);
  receive_ack(oldest + 39);
  EXPECT_EQ(pump().size(), 8u + 1u);
  EXPECT_EQ(queue_pair->state(), State::kRts);
}

TEST_F(Retransmit, AnRnrNakGivesTheOtherRetriesBack) {
  attributes.rnr_retry = 7;
  bring_up();
  post(SendOperation::kSend, 1);
  pump();
  for (int i = 0; i < 5; ++i) {
    for (int lost = 0; lost < 3; ++lost) {  // of our packets, or of the peer's RNR NAKs
      expire();
      ASSERT_EQ(pump().size(), 1u);
    }
    receive_rnr(1, 100);
    expire();
    ASSERT_EQ(pump().size(), 1u);
  }
  EXPECT_EQ(queue_pair->state(), State::kRts);
}

/// As Linux's rxe answers two SENDs that find no receive.
TEST_F(Retransmit, ASequenceNakBehindAnRnrNakLeavesTheWindow) {
  attributes.retry_count = 0;
  bring_up();
  post(SendOperation::kSend, 1);
  post(SendOperation::kSend, 1);
  pump();
  receive_rnr(1, 100);
  receive_nak(NakCode::kSequenceError, 100);
  EXPECT_EQ(queue_pair->state(), State::kRts);
  expire();
  EXPECT_EQ(pump().size(), 1u);
  receive_nak(NakCode::kSequenceError, 100);  // late
  EXPECT_TRUE(pump().empty());
  receive_ack(100);
  EXPECT_EQ(pump().size(), 1u);
  receive_ack(101);
  EXPECT_EQ(send_completions().size(), 2u);
  for (uint32_t i = 0; i < SendWindow::kPackets + 1; ++i) post(SendOperation::kSend, 1);
  EXPECT_EQ(pump().size(), SendWindow::kPackets);
}

TEST_F(Retransmit, AReadIsAskedForAgainInWholeWhenNothingCame) {
  bring_up();
  post(SendOperation::kRead, 2 * kMtu);
  pump();
  expire();
  const auto frames = pump();
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_EQ(frames[0].reth().length, 2 * kMtu);
}

}  // namespace
}  // namespace uroce::qp::testing
