// The parts of loss recovery, each by itself.
#include <gtest/gtest.h>

#include "qp/recovery/ack_timer.h"
#include "qp/recovery/peer_buffering.h"
#include "qp/recovery/reordering.h"
#include "qp/recovery/rtt_estimator.h"
#include "qp/recovery/tail_loss_probe.h"

namespace uroce::qp::testing {
namespace {

constexpr Instant kStart{1'000'000'000};
constexpr uint8_t kTimeout = 10;
constexpr Duration kT = ack_timeout(kTimeout);

TEST(AckTimer, ConsecutiveTimeoutsDoubleItToFourTimes) {
  AckTimer timer;
  for (const int64_t times : {1, 2, 4, 4}) {
    timer.start(kTimeout, kStart);
    EXPECT_EQ(timer.deadline(), kStart + kT * times);
    timer.expired();
  }
  timer.peer_alive(kTimeout, kStart + kT);
  EXPECT_EQ(timer.deadline(), kStart + kT * 2);
}

TEST(AckTimer, AnAnswerStartsNoTimerThatDoesNotRun) {
  AckTimer timer;
  timer.peer_alive(kTimeout, kStart);
  EXPECT_FALSE(timer.runs());
  timer.start(kNoAckTimeout, kStart);
  EXPECT_FALSE(timer.runs());
}

TEST(AckTimer, AllowsAsManyRetriesAsItsLimitUntilThereIsProgress) {
  AckTimer timer;
  const auto use_up = [&timer] {
    EXPECT_TRUE(timer.may_retry(2));
    EXPECT_TRUE(timer.may_retry(2));
    EXPECT_FALSE(timer.may_retry(2));
  };
  use_up();
  timer.acknowledged();
  use_up();
  timer.forgive();
  use_up();
}

/// An estimate that has settled on that round trip.
RttEstimator settled(Duration round_trip) {
  RttEstimator rtt;
  for (int i = 0; i < 100; ++i) rtt.take(round_trip);
  return rtt;
}

TEST(RttEstimator, WaitsForTwoRoundTripsAndAtLeastWhatAThreadMayBeAway) {
  EXPECT_EQ(RttEstimator().patience(), RttEstimator::kUnknown);
  EXPECT_EQ(settled(milliseconds(1)).patience(), milliseconds(2));
  EXPECT_EQ(settled(microseconds(5)).patience(), microseconds(100));
}

TEST(RttEstimator, TimesWhatWentOutFirstUntilAllOfItIsAnswered) {
  RttEstimator rtt;
  EXPECT_TRUE(rtt.begin(Psn(100), Psn(104), kStart)) << "the first is shown";
  EXPECT_FALSE(rtt.begin(Psn(104), Psn(108), kStart + milliseconds(1)));
  EXPECT_FALSE(rtt.answered(Psn(102), kStart + milliseconds(2)));
  EXPECT_EQ(rtt.samples(), 0u);
  EXPECT_TRUE(rtt.answered(Psn(104), kStart + milliseconds(3)));
  EXPECT_EQ(rtt.newest(), milliseconds(3));
  EXPECT_EQ(rtt.least(), milliseconds(2)) << "of the part";
}

TEST(TailLossProbe, WhereNothingWasLostGoesOnceAndOnlyIfThatIsWanted) {
  const RttEstimator rtt = settled(milliseconds(1));
  TailLossProbe probe;
  probe.sent(kStart);
  probe.start(rtt, false, kTimeout, kStart);
  EXPECT_FALSE(probe.runs());
  probe.start(rtt, true, kTimeout, kStart);
  EXPECT_EQ(probe.deadline(), kStart + milliseconds(2));
  probe.expired();
  probe.start(rtt, true, kTimeout, kStart);
  EXPECT_FALSE(probe.runs());
}

TEST(TailLossProbe, BeforeTheFirstAnswerWaitsForAPartOfTheAckTimeout) {
  TailLossProbe probe;
  probe.sent(kStart);
  probe.start(RttEstimator(), true, 14, kStart);
  EXPECT_EQ(probe.deadline(), kStart + Duration{ack_timeout(14).ns / 16});
  probe.start(RttEstimator(), true, kNoAckTimeout, kStart);
  EXPECT_EQ(probe.deadline(), kStart + milliseconds(1));
}

TEST(TailLossProbe, EachSpuriousOneDoublesTheNextWaitAndANeededOneHalvesTheCount) {
  const RttEstimator rtt = settled(milliseconds(1));
  TailLossProbe probe;
  const auto wait = [&] {
    probe.acknowledged();
    probe.sent(kStart);
    probe.start(rtt, true, kTimeout, kStart);
    return probe.deadline() - kStart;
  };
  for (const int64_t times : {1, 2, 4}) {
    EXPECT_EQ(wait(), milliseconds(2) * times);
    probe.expired();
    probe.judge(rtt, false, {});
  }
  EXPECT_EQ(wait(), milliseconds(16));
  probe.expired();
  probe.judge(rtt, true, milliseconds(1));
  EXPECT_EQ(wait(), milliseconds(4));
}

TEST(TailLossProbe, WhereSomethingWasLostEachWaitsTwiceAsLong) {
  const RttEstimator rtt = settled(milliseconds(1));
  TailLossProbe probe;
  probe.note_loss();
  probe.start(RttEstimator(), true, kTimeout, kStart);
  EXPECT_FALSE(probe.runs()) << "no round trip is known";
  for (const int64_t times : {1, 2, 4, 8}) {
    probe.start(rtt, false, kTimeout, kStart);
    EXPECT_EQ(probe.deadline(), kStart + milliseconds(2) * times);
    probe.expired();
  }
}

TEST(PeerBuffering, AfterThreeFailedAttemptsOneLossOfSixteenIsAnother) {
  PeerBuffering buffering;
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(buffering.may_attempt());
    buffering.refute();
  }
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < 15; ++i) EXPECT_FALSE(buffering.may_attempt());
    EXPECT_TRUE(buffering.may_attempt());
  }
  buffering.confirm();
  EXPECT_TRUE(buffering.may_attempt());
}

TEST(PeerBuffering, GapsInARowAreExpectedOnlyOfAPeerThatWasSeenToBuffer) {
  PeerBuffering buffering;
  EXPECT_EQ(buffering.gaps_max(), 1u);
  buffering.confirm();
  EXPECT_EQ(buffering.gaps_max(), 3u);
  buffering.refute();
  EXPECT_EQ(buffering.gaps_max(), 1u);
}

TEST(Reordering, WhatCameTwiceAfterItWasAskedForWasLate) {
  Reordering order;
  EXPECT_TRUE(order.is_lost(Psn(100), Psn(101)));
  order.asked(Psn(100));
  order.came_again(Psn(99));
  EXPECT_TRUE(order.is_lost(Psn(110), Psn(111)));
  order.came_again(Psn(100));
  EXPECT_FALSE(order.is_lost(Psn(110), Psn(174)));
  EXPECT_TRUE(order.is_lost(Psn(110), Psn(175)));
}

}  // namespace
}  // namespace uroce::qp::testing
