#include "qp/recovery/transport_timers.h"
#include "tests/unit/qp/fixture.h"

namespace uroce::qp::testing {
namespace {

using wire::AethKind;
using wire::NakCode;
using wire::Operation;

using Responder = QueuePairTest;

TEST_F(Responder, ALongReadIsAnsweredAsTheBudgetAllows) {
  bring_up(State::kRtr);
  receive_read(5000, 0, 100 * kMtu);
  EXPECT_TRUE(pump_once(8));
  EXPECT_EQ(take_sent().size(), 8u);
  EXPECT_EQ(pump(8).size(), 92u);
}

TEST_F(Responder, AReadSeesTheWriteBeforeIt) {
  bring_up(State::kRtr);
  commit_after_receive = false;
  receive_write(Operation::kWriteOnly, 5000, 40, 30, pattern(30, 12));
  receive_read(5001, 40, 30);
  const auto frames = pump();
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_EQ(frames[0].operation(), Operation::kReadResponseOnly);
  EXPECT_EQ(frames[0].payload(), pattern(30, 12));
}

TEST_F(Responder, ANakThatHasNotLeftFollowsTheGap) {
  bring_up(State::kRtr);
  // 5001 overtakes 5000 within a burst: 5001 was dropped and is what is missing in the end.
  receive_write(Operation::kWriteOnly, 5001, 0, 1, pattern(1));
  receive_write(Operation::kWriteOnly, 5000, 0, 1, pattern(1));
  expect_nak(pump(), NakCode::kSequenceError, 5001);
  receive_write(Operation::kWriteOnly, 5002, 0, 1, pattern(1));
  EXPECT_TRUE(pump().empty());  // that gap was NAKed
}

TEST_F(Responder, ADuplicateReadOfMemoryThatWasDeregisteredSinceIsDropped) {
  bring_up(State::kRtr);
  receive_read(5000, 0, 2 * kMtu);
  EXPECT_EQ(pump().size(), 2u);
  ASSERT_TRUE(regions.deregister(keys.lkey));
  receive_read(5000, 0, 2 * kMtu);
  EXPECT_TRUE(pump().empty());
  EXPECT_EQ(counter(Counter::kDropResources), 1u);
  EXPECT_EQ(queue_pair->state(), State::kRtr);
  post_receive(10);
  receive(Operation::kSendOnly, 5002, {}, true);
  expect_answer(pump(), AethKind::kAck, wire::kNoCredits, 5002);
}

TEST_F(Responder, AReadAskedForAgainStartsOverInItsPlace) {
  bring_up(State::kRtr);
  receive_read(5000, 0, 4 * kMtu);
  receive_read(5004, 0, kMtu);
  EXPECT_TRUE(pump_once(4));
  EXPECT_EQ(take_sent().size(), 4u);
  receive_read(5001, kMtu, 3 * kMtu);
  const auto frames = pump();
  ASSERT_EQ(frames.size(), 4u);
  for (uint32_t i = 0; i < 4; ++i) EXPECT_EQ(frames[i].psn(), 5001 + i);
}

TEST_F(Responder, AfterTheRnrTimeAGapIsAGapAgain) {
  bring_up(State::kRtr);
  receive(Operation::kSendOnly, 5000, pattern(1), true);
  pump();
  advance(rnr_wait(12));
  receive(Operation::kSendOnly, 5001, pattern(1), true);
  expect_nak(pump(), NakCode::kSequenceError, 5000);
}

TEST_F(Responder, ReceivesMayBePostedInInit) {
  bring_up(State::kInit);
  post_receive(10);
  EXPECT_FALSE(pump_once(8));
  ASSERT_EQ(modify(State::kRtr, kMaskAv | kMaskPathMtu | kMaskDestQpn | kMaskRqPsn | kMaskMaxDestRdAtomic |
                                    kMaskMinRnrTimer),
            0);
  receive(Operation::kSendOnly, 5000, pattern(1), true);
  EXPECT_EQ(receive_completions().size(), 1u);
}

}  // namespace
}  // namespace uroce::qp::testing
