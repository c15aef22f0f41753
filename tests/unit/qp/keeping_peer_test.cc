// A peer that keeps what comes early is sent what is missing alone; whether it does is learnt from its
// answers.
#include "tests/unit/qp/fixture.h"

namespace uroce::qp::testing {
namespace {

using queue::CompletionStatus;
using queue::SendOperation;
using wire::NakCode;
using wire::Operation;

class KeepingPeer : public QueuePairTest {
 protected:
  static constexpr uint32_t kFirst = 100;

  void post_writes(int count) {
    for (int i = 0; i < count; ++i) post(SendOperation::kWrite, 1);
  }
  std::vector<uint32_t> pumped() {
    std::vector<uint32_t> psns;
    for (const Sent& frame : pump()) psns.push_back(frame.psn());
    return psns;
  }
  /// 20 packets, of which the second was lost: the answer to it acknowledges them all.
  void learn() {
    bring_up();
    post_writes(20);
    pump();
    receive_nak(NakCode::kSequenceError, kFirst + 1);
    EXPECT_EQ(pumped(), Numbers{101});
    receive_ack(kFirst + 19);
    EXPECT_EQ(pumped(), Numbers());
  }
  /// So many more packets, which go out.
  void send(uint32_t count) {
    post_writes(static_cast<int>(count));
    EXPECT_EQ(pumped().size(), count);
  }

  /// The answer to a READ: `count` packets, the last of `last_bytes`.
  void respond(uint32_t first, uint32_t count, uint32_t last_bytes = kMtu, bool ends = true) {
    for (uint32_t i = 0; i < count; ++i) {
      const bool last = ends && i + 1 == count;
      const Operation operation = last && i == 0 ? Operation::kReadResponseOnly
                                  : last         ? Operation::kReadResponseLast
                                  : i == 0       ? Operation::kReadResponseFirst
                                                 : Operation::kReadResponseMiddle;
      wire::Headers headers = from_peer(operation, first + i);
      headers.aeth = wire::Aeth::ack(0);
      receive(headers, pattern(last ? last_bytes : kMtu));
    }
  }

  using Numbers = std::vector<uint32_t>;
};

TEST_F(KeepingPeer, OneThatHasNotKeptIsSentAllAgain) {
  bring_up();
  post_writes(5);
  pump();
  receive_nak(NakCode::kSequenceError, kFirst + 1);
  EXPECT_EQ(pumped(), Numbers{101});
  receive_ack(101);
  EXPECT_EQ(pumped(), (Numbers{102, 103, 104}));
  // What is new meanwhile goes behind it.
  receive_ack(104);
  send(5);
  receive_nak(NakCode::kSequenceError, 105);
  post_writes(1);
  EXPECT_EQ(pumped(), (Numbers{105, 110}));
}

TEST_F(KeepingPeer, AfterSomeOfThatItIsTriedOnlyNowAndThen) {
  bring_up();
  uint32_t alone = 0;
  for (uint32_t first = kFirst; first < kFirst + 35 * 5; first += 5) {
    send(5);
    receive_nak(NakCode::kSequenceError, first);
    if (pumped().size() == 1) {
      ++alone;
      receive_ack(first);
      EXPECT_EQ(pumped().size(), 4u);
    }
    receive_ack(first + 4);
  }
  EXPECT_EQ(alone, 3u + 2u);
}

TEST_F(KeepingPeer, APacketThatWasOnlyLateEndsTheTrial) {
  bring_up();
  send(5);
  receive_nak(NakCode::kSequenceError, kFirst + 1);
  receive_ack(kFirst + 4);  // before it was sent again
  EXPECT_EQ(pumped(), Numbers());
  EXPECT_EQ(send_completions().size(), 5u);
}

TEST_F(KeepingPeer, WhileItWaitsTheWindowIsLarger) {
  learn();
  post(SendOperation::kWrite, 2000 * kMtu);
  EXPECT_EQ(pumped().size(), SendWindow::kPackets);
  uint32_t oldest = 120;
  receive_nak(NakCode::kSequenceError, oldest);
  EXPECT_EQ(pumped().size(), 1u + SendWindow::kPackets);
  for (uint32_t unanswered = 3 * SendWindow::kPackets; unanswered <= SendWindow::kPacketsMax + 2;
       unanswered += SendWindow::kPackets) {
    oldest += 2;
    receive_ack(oldest - 1);
    EXPECT_EQ(pumped().size(), 1u + 2u + (unanswered <= SendWindow::kPacketsMax ? SendWindow::kPackets : 0));
  }
  receive_ack(oldest + 900);
  EXPECT_EQ(pumped().back() - (oldest + 900), SendWindow::kPackets);
}

TEST_F(KeepingPeer, WhatIsMissingGoesAloneAndAsks) {
  learn();
  send(10);
  receive_nak(NakCode::kSequenceError, 123);
  const auto frames = pump();
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_EQ(frames[0].psn(), 123u);
  EXPECT_TRUE(frames[0].ack_request());
  receive_nak(NakCode::kSequenceError, 123);  // an echo
  EXPECT_EQ(pumped(), Numbers());
  // What is new follows what has been sent.
  post_writes(1);
  EXPECT_EQ(pumped(), Numbers{130});
  receive_ack(130);
  EXPECT_EQ(send_completions().size(), 31u);
}

TEST_F(KeepingPeer, TheNextGapFollowsFromTheAnswerToTheOneBefore) {
  learn();
  send(10);
  receive_nak(NakCode::kSequenceError, 121);
  EXPECT_EQ(pumped(), Numbers{121});
  receive_ack(124);
  EXPECT_EQ(pumped(), Numbers{125});
  receive_nak(NakCode::kSequenceError, 125);  // told by what was sent later
  EXPECT_EQ(pumped(), Numbers());
  receive_ack(129);
  EXPECT_EQ(pumped(), Numbers());
  EXPECT_EQ(send_completions().size(), 30u);
}

TEST_F(KeepingPeer, PacketsLostOneBehindTheOtherGoAloneTwice) {
  learn();
  send(10);
  receive_nak(NakCode::kSequenceError, 121);
  EXPECT_EQ(pumped(), Numbers{121});
  receive_ack(121);
  EXPECT_EQ(pumped(), Numbers{122});
  receive_ack(129);
  EXPECT_EQ(pumped(), Numbers());
}

TEST_F(KeepingPeer, OneThatKeepsNothingAnyMoreIsSentAllAgain) {
  learn();
  send(10);
  receive_nak(NakCode::kSequenceError, 121);
  for (uint32_t psn = 121; psn < 124; ++psn) {
    const Numbers psns = pumped();
    EXPECT_EQ(psns, Numbers{psn});
    receive_ack(psn);
  }
  EXPECT_EQ(pumped(), (Numbers{124, 125, 126, 127, 128, 129}));
  receive_nak(NakCode::kSequenceError, 126);
  EXPECT_EQ(pumped(), Numbers{126});
  receive_ack(126);
  EXPECT_EQ(pumped(), (Numbers{127, 128, 129}));
}

TEST_F(KeepingPeer, WhatIsLostOnceMoreGoesAgainAfterSomeRoundTripsEachTimeLater) {
  learn();
  send(2);
  advance(microseconds(50));
  receive_ack(121);  // a round trip
  send(10);
  receive_nak(NakCode::kSequenceError, 125);
  EXPECT_EQ(pumped(), Numbers{125});
  Duration waited = queue_pair->deadline() - turn.now;
  EXPECT_GE(waited, microseconds(100));
  EXPECT_LE(waited, microseconds(200));
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(queue_pair->deadline(), turn.now + waited);
    expire();
    EXPECT_EQ(pumped(), Numbers{125});
    waited = Duration{waited.ns * 2};
  }
  EXPECT_EQ(counter(Counter::kAckTimeout), 0u);
  receive_ack(131);
  EXPECT_EQ(queue_pair->deadline(), kNever);
}

TEST_F(KeepingPeer, ThatGoesOnUntilTheAckTimeoutWhichCounts) {
  learn();
  send(2);
  advance(microseconds(50));
  receive_ack(121);
  send(10);
  const Instant began = turn.now;
  const Duration timeout = ack_timeout(attributes.timeout);
  for (int i = 0; counter(Counter::kAckTimeout) == 0; ++i) {
    ASSERT_LT(i, 20);
    expire();
    pump();
  }
  EXPECT_EQ(turn.now, began + timeout) << "a probe is no news of the peer";
  EXPECT_EQ(queue_pair->state(), State::kRts);
  for (int i = 0; queue_pair->state() == State::kRts; ++i) {
    ASSERT_LT(i, 100);
    expire();
    pump();
  }
  EXPECT_EQ(counter(Counter::kAckTimeout), 4u);  // retry_count is 3
  EXPECT_EQ(turn.now, began + timeout * (1 + 2 + 4 + 4));
}

TEST_F(KeepingPeer, AMissingReadGoesAloneAsAWhole) {
  learn();
  post(SendOperation::kRead, 10 * kMtu);
  post(SendOperation::kRead, 10);
  post_writes(3);
  EXPECT_EQ(pumped(), (Numbers{120, 130, 131, 132, 133}));
  receive_nak(NakCode::kSequenceError, 120);
  auto frames = pump();
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_EQ(frames[0].psn(), 120u);
  EXPECT_EQ(frames[0].reth().length, 10 * kMtu);
  respond(120, 10);
  EXPECT_EQ(pumped(), Numbers());
  respond(130, 1, 10);
  receive_ack(133);
  EXPECT_EQ(pumped(), Numbers());
  EXPECT_EQ(send_completions().size(), 25u);
}

TEST_F(KeepingPeer, OfALateReadTheRestIsAskedForAgain) {
  learn();
  send(2);
  advance(microseconds(50));
  receive_ack(121);
  post(SendOperation::kRead, 10 * kMtu);
  post_writes(1);
  EXPECT_EQ(pumped(), (Numbers{122, 132}));
  respond(122, 4, kMtu, false);
  expire();
  const auto frames = pump();
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_EQ(frames[0].psn(), 126u);
  EXPECT_EQ(frames[0].reth().length, 6 * kMtu);
  EXPECT_EQ(counter(Counter::kAckTimeout), 0u);
  respond(126, 6);
  receive_ack(132);
  EXPECT_EQ(send_completions().size(), 24u);
}

TEST_F(KeepingPeer, InANewLifeItIsUnknown) {
  learn();
  post_writes(5);
  pump();
  receive_nak(NakCode::kSequenceError, 121);
  EXPECT_EQ(pumped(), Numbers{121});
  Attributes change;
  change.state = State::kReset;
  ASSERT_EQ(queue_pair->modify(change, kMaskState, turn), 0);
  bring_up();
  post_writes(5);
  pump();
  receive_nak(NakCode::kSequenceError, kFirst + 1);
  EXPECT_EQ(pumped(), Numbers{101});
  receive_ack(101);
  EXPECT_EQ(pumped(), (Numbers{102, 103, 104}));
}

}  // namespace
}  // namespace uroce::qp::testing
