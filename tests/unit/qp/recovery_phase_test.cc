// Loss recovery by its events, without a queue pair: what phase it is in, and what it lets go.
#include "qp/recovery/loss_recovery.h"
#include "tests/unit/qp/fixture.h"

namespace uroce::qp::testing {
namespace {

using queue::SendOperation;
using Next = LossRecovery::Next;
using Phase = LossRecovery::Phase;

constexpr uint8_t kTimeout = 10;
constexpr uint8_t kRnrCode = 12;

class RecoveryPhase : public ::testing::Test {
 protected:
  static constexpr uint32_t kFirst = 100;

  RecoveryPhase() {
    side.window.reset(Psn(kFirst));
    EXPECT_TRUE(side.window.provide(16));
    side.connection.attributes.timeout = kTimeout;
    side.connection.attributes.retry_count = 3;
    side.connection.attributes.rnr_retry = 2;
    turn.now = Instant{1'000'000'000};
  }

  /// Requests of one packet go out.
  void send(uint32_t count, SendOperation operation = SendOperation::kWrite) {
    for (uint32_t i = 0; i < count; ++i) {
      queue::SendRequest& request = *sends.reserve();
      request.operation = operation;
      sends.publish();
      side.window.start(request, 1);
      pass(request);
    }
    recovery.sent(turn.now);
  }
  /// All that was sent before a rewind goes out again, as far as the window allows.
  void send_again() {
    while (side.window.next() != side.window.sent_end() && side.window.unanswered() < recovery.window())
      pass(side.window.current());
    recovery.sent(turn.now);
  }
  void send_oldest() {
    ASSERT_EQ(recovery.next(turn.now), Next::kOldest);
    const SendWindow::Place place = side.window.visit_oldest();
    pass(side.window.current());
    const Psn end = side.window.next();
    side.window.return_to(place);
    recovery.oldest_sent(turn.now, end, 0);
  }
  /// The peer acknowledges the packets up to `psn`.
  void acknowledge(uint32_t psn) {
    const auto count = static_cast<uint32_t>(Psn(psn) + 1u - side.window.oldest());
    side.window.retire_messages({.messages = count, .bytes = 0}, Psn(psn) + 1u);
    side.window.settle();
    static_cast<void>(recovery.acknowledged(count, turn.now));
  }
  void expire() {
    turn.now = std::max(turn.now, recovery.deadline());
    recovery.expire(turn);
  }
  void expect(Phase phase, Next next) {
    EXPECT_EQ(recovery.phase(), phase);
    EXPECT_EQ(recovery.next(turn.now), next);
  }
  /// A round trip is known, and that the peer buffers.
  void learn() {
    send(3);
    turn.now = turn.now + milliseconds(1);
    recovery.sequence_nak(turn);
    send_oldest();
    turn.now = turn.now + milliseconds(1);
    acknowledge(kFirst + 2);
    expect(Phase::kOpen, Next::kOnward);
  }

  queue::SendQueue sends{{.depth = 512, .segments_max = 1}};
  queue::ReceiveQueue receives{{.depth = 8, .segments_max = 1}};
  queue::CompletionQueue completion_queue{{.depth = 512, .number = 3}};
  TransportOptions transport;
  SendSide side{{.transport = &transport,
                 .number = QpNumber{0x11},
                 .send_queue = &sends,
                 .receive_queue = &receives,
                 .send_completions = &completion_queue,
                 .receive_completions = &completion_queue}};
  LossRecovery& recovery = side.recovery;

  mem::BusSpace bus{{.offset = uint64_t{3} << 21}};
  mem::testing::OtherPoller other_poller;
  mem::RegionTable regions{{.entries_max = 16, .grace_period = &other_poller, .bus_space = &bus}};
  CapturingQueue port;
  port::TxBatch tx{port};
  copy::Placer placer{copy::Kind::kAuto};
  queue::CompletionBatch completions{0};
  Counters counters;
  Turn turn{.now = {},
            .tx = tx,
            .placer = placer,
            .completions = completions,
            .regions = regions,
            .counters = counters};

 private:
  /// The current request's packet goes out.
  void pass(const queue::SendRequest& request) {
    side.window.sent(1);
    if (!queue::is_message(request.operation)) side.window.read_sent();
    side.window.end_current(1);
  }
};

TEST_F(RecoveryPhase, IsOpenWhileAnswersCome) {
  expect(Phase::kOpen, Next::kOnward);
  EXPECT_EQ(recovery.window(), SendWindow::kPackets);
  EXPECT_EQ(recovery.deadline(), kNever);
  send(3);
  EXPECT_EQ(recovery.deadline(), turn.now + ack_timeout(kTimeout));
  acknowledge(kFirst + 2);
  expect(Phase::kOpen, Next::kOnward);
  EXPECT_EQ(recovery.deadline(), kNever);
}

TEST_F(RecoveryPhase, ASequenceNakSendsTheOldestAloneAndMoreOfThemAreEchoes) {
  send(5);
  recovery.sequence_nak(turn);
  expect(Phase::kSelective, Next::kOldest);
  EXPECT_TRUE(recovery.awaits_gap());
  send_oldest();
  expect(Phase::kSelective, Next::kOnward);
  for (int echo = 0; echo < 10; ++echo) recovery.sequence_nak(turn);
  EXPECT_FALSE(recovery.implied_nak(turn));
  EXPECT_FALSE(side.connection.broken) << "no echo is a retry";
}

TEST_F(RecoveryPhase, AnAckOfMoreShowsAPeerThatBuffersAndItsNextGap) {
  send(9);
  recovery.sequence_nak(turn);
  send_oldest();
  acknowledge(kFirst + 3);  // the next one is missing, too
  expect(Phase::kSelective, Next::kOldest);
  send_oldest();
  EXPECT_GT(recovery.window(), SendWindow::kPackets) << "what it buffers is not in the network";
  acknowledge(kFirst + 8);
  expect(Phase::kOpen, Next::kOnward);
  EXPECT_EQ(recovery.window(), SendWindow::kPackets);
}

TEST_F(RecoveryPhase, AnAckOfThatPacketAloneShowsOneThatDoesNot) {
  send(5);
  recovery.sequence_nak(turn);
  send_oldest();
  acknowledge(kFirst);
  expect(Phase::kGoBackN, Next::kOnward);
  EXPECT_EQ(side.window.next(), Psn(kFirst + 1)) << "all goes again";
  EXPECT_EQ(recovery.window(), SendWindow::kPackets / 2);
  send_again();
  acknowledge(kFirst + 4);
  expect(Phase::kOpen, Next::kOnward);
}

TEST_F(RecoveryPhase, AnImpliedNakGoesBackOnce) {
  send(5, SendOperation::kRead);
  EXPECT_TRUE(recovery.implied_nak(turn));
  expect(Phase::kGoBackN, Next::kOnward);
  EXPECT_EQ(side.window.unanswered(), 0u);
  send_again();
  EXPECT_FALSE(recovery.implied_nak(turn));
}

TEST_F(RecoveryPhase, ResponsesThatWereOvertakenAreAskedForAlone) {
  send(5, SendOperation::kRead);
  EXPECT_TRUE(recovery.responses_missing(turn, Psn(kFirst + 2)));
  expect(Phase::kSelective, Next::kOldest);
  EXPECT_EQ(recovery.due_end(), Psn(kFirst + 2));
  EXPECT_FALSE(recovery.responses_missing(turn, Psn(kFirst + 3)));
}

TEST_F(RecoveryPhase, WithoutSelectiveRepeatEachGapGoesBack) {
  transport.selective_repeat = false;
  send(5, SendOperation::kRead);
  recovery.sequence_nak(turn);
  expect(Phase::kGoBackN, Next::kOnward);
  send_again();
  EXPECT_FALSE(recovery.responses_missing(turn, Psn(kFirst + 2))) << "an echo";
}

/// The answer to a READ says nothing of what is behind it; the NAK that follows does.
TEST_F(RecoveryPhase, ANakBehindAReadThatWentAloneIsAFailedAttempt) {
  for (int attempt = 0; attempt < 3; ++attempt) {
    const uint32_t read = side.window.next().value();
    send(1, SendOperation::kRead);
    send(3);
    EXPECT_TRUE(recovery.responses_missing(turn, Psn(read + 1)));
    send_oldest();
    acknowledge(read);
    expect(Phase::kOpen, Next::kOnward);
    recovery.sequence_nak(turn);
    expect(Phase::kGoBackN, Next::kOnward);
    send_again();
    acknowledge(read + 3);
  }
  send(5);
  recovery.sequence_nak(turn);
  expect(Phase::kGoBackN, Next::kOnward);
}

TEST_F(RecoveryPhase, AnRnrNakLetsNothingGoUntilItsTimeAndThenTheOldest) {
  send(3);
  recovery.rnr_nak(turn, kRnrCode);
  expect(Phase::kRnrWait, Next::kNothing);
  EXPECT_EQ(recovery.deadline(), turn.now + rnr_wait(kRnrCode));
  recovery.rnr_nak(turn, kRnrCode);  // the network doubled it
  turn.now = recovery.deadline() - nanoseconds(1);
  recovery.expire(turn);
  expect(Phase::kRnrWait, Next::kNothing);
  expire();
  expect(Phase::kGoBackN, Next::kOnward);
  EXPECT_EQ(recovery.window(), 1u);
  send_again();
  recovery.sequence_nak(turn);
  EXPECT_EQ(side.window.unanswered(), 1u) << "an echo of what went behind it";
  acknowledge(kFirst);
  expect(Phase::kOpen, Next::kOnward);
  EXPECT_EQ(recovery.window(), SendWindow::kPackets);
}

TEST_F(RecoveryPhase, AnRnrWaitEndsWithWhatGoesAfterItsTimeAlsoBeforeTheTimer) {
  send(3);
  recovery.rnr_nak(turn, kRnrCode);
  turn.now = recovery.deadline();
  expect(Phase::kRnrWait, Next::kOnward);
  send_again();
  expect(Phase::kGoBackN, Next::kOnward);
  EXPECT_EQ(recovery.deadline(), turn.now + ack_timeout(kTimeout));
}

TEST_F(RecoveryPhase, AnImpliedNakDoesNotEndAnRnrWait) {
  send(3, SendOperation::kRead);
  recovery.rnr_nak(turn, kRnrCode);
  const Instant until = recovery.deadline();
  EXPECT_TRUE(recovery.implied_nak(turn));
  expect(Phase::kRnrWait, Next::kNothing);
  EXPECT_EQ(recovery.deadline(), until);
  expire();
  expect(Phase::kGoBackN, Next::kOnward);
}

TEST_F(RecoveryPhase, AnAckTimeoutLeavesALossWindowAndMakesNaksEchoesButNotTheOrderOfAnswers) {
  send(3, SendOperation::kRead);
  expire();
  expect(Phase::kGoBackN, Next::kOnward);
  EXPECT_EQ(recovery.window(), 1u);
  send_again();
  recovery.sequence_nak(turn);
  EXPECT_EQ(side.window.unanswered(), 1u);
  EXPECT_TRUE(recovery.responses_missing(turn, Psn(kFirst + 2)));
  expect(Phase::kSelective, Next::kOldest);
  EXPECT_EQ(recovery.window(), 1u) << "until there is progress";
}

TEST_F(RecoveryPhase, ALateAnswerIsProbedForAndThatIsNoRetry) {
  learn();
  send(3);
  const Instant ack_deadline = turn.now + ack_timeout(kTimeout);
  expire();
  EXPECT_LT(turn.now, ack_deadline);
  expect(Phase::kProbe, Next::kOldest);
  send_oldest();
  expect(Phase::kProbe, Next::kOnward);
  EXPECT_FALSE(recovery.awaits_gap()) << "a NAK counts";
  acknowledge(kFirst + 5);
  expect(Phase::kOpen, Next::kOnward);
  EXPECT_EQ(counters.read(Counter::kAckTimeout), 0u);
}

TEST_F(RecoveryPhase, AProbeBehindAGapThatWasHandledLeavesNaksEchoes) {
  learn();
  send(4);
  EXPECT_TRUE(recovery.implied_nak(turn));
  send_again();
  expire();
  expect(Phase::kProbe, Next::kOldest);
  send_oldest();
  recovery.sequence_nak(turn);
  expect(Phase::kProbe, Next::kOnward);
}

TEST_F(RecoveryPhase, APacketThatWasProbedForIsNoGapOfTheNakThatFollows) {
  send(3);
  turn.now = turn.now + milliseconds(1);
  recovery.sequence_nak(turn);
  send_oldest();
  turn.now = turn.now + milliseconds(1);
  acknowledge(kFirst);  // a peer that does not buffer
  send_again();
  acknowledge(kFirst + 2);
  send(4);
  expire();
  expect(Phase::kProbe, Next::kOldest);
  send_oldest();
  acknowledge(kFirst + 3);
  recovery.sequence_nak(turn);
  expect(Phase::kSelective, Next::kOldest);
  send_oldest();
  acknowledge(kFirst + 4);
  expect(Phase::kGoBackN, Next::kOnward);
}

TEST_F(RecoveryPhase, AProbeForAGapStaysSelective) {
  learn();
  send(4);
  recovery.sequence_nak(turn);
  send_oldest();
  expire();
  expect(Phase::kSelective, Next::kOldest);
  EXPECT_EQ(counters.read(Counter::kAckTimeout), 0u);
}

TEST_F(RecoveryPhase, RetriesRunOutWhateverTheyAreFor) {
  send(3);
  recovery.sequence_nak(turn);
  send_oldest();
  for (int timeouts = 0; timeouts < 2; ++timeouts) {
    expire();
    send_again();
  }
  EXPECT_FALSE(side.connection.broken);
  expire();
  EXPECT_TRUE(side.connection.broken);
  EXPECT_EQ(counters.read(Counter::kRetryExceeded), 1u);
}

TEST_F(RecoveryPhase, InANewLifeNothingIsKnown) {
  learn();
  send(3);
  expire();
  side.window.reset(Psn(kFirst));
  recovery.reset();
  expect(Phase::kOpen, Next::kOnward);
  EXPECT_EQ(recovery.deadline(), kNever);
  EXPECT_EQ(recovery.window(), SendWindow::kPackets);
  EXPECT_EQ(recovery.rtt().patience(), RttEstimator::kUnknown);
}

}  // namespace
}  // namespace uroce::qp::testing
