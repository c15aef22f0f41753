// Which packets ask for an acknowledgement. Without an ACK timeout: one that is never asked for never comes.
#include "tests/unit/qp/fixture.h"

namespace uroce::qp::testing {
namespace {

using queue::CompletionStatus;
using queue::SendOperation;
using wire::Operation;

class AckRequest : public QueuePairTest {
 protected:
  explicit AckRequest(Type service = Type::kRc) : QueuePairTest(service) { attributes.timeout = 0; }

  queue::SendRequest& post_unsignaled(SendOperation operation, uint32_t length = 10) {
    queue::SendRequest& request = post(operation, length);
    request.signaled = false;
    return request;
  }
  std::vector<bool> asked() {
    std::vector<bool> asked;
    for (const Sent& frame : pump()) asked.push_back(frame.ack_request());
    return asked;
  }
  void receive_credits(uint32_t psn, uint32_t msn, uint8_t code) {
    wire::Headers headers = from_peer(Operation::kAcknowledge, psn);
    headers.aeth = wire::Aeth::ack(msn, code);
    receive(headers);
  }
};

using Asked = std::vector<bool>;

TEST_F(AckRequest, WhoIsNotWaitedForLeavesItToTheMessageBehind) {
  bring_up();
  post_unsignaled(SendOperation::kWrite);
  post_unsignaled(SendOperation::kSend, 2 * kMtu);
  post(SendOperation::kWrite, 10);
  EXPECT_EQ(asked(), Asked({false, false, false, true}));
  receive_ack(103);
  EXPECT_EQ(send_completions().size(), 1u);
  EXPECT_EQ(sends.outstanding(), 0u);
}

TEST_F(AckRequest, WhoIsWaitedForAsks) {
  bring_up();
  for (int i = 0; i < 2; ++i) post(SendOperation::kWrite, 10);
  EXPECT_EQ(asked(), Asked({true, true}));
}

TEST_F(AckRequest, AQueuePairThatSignalsAllAsksForAll) {
  options.signal_all = true;
  queue_pair = std::make_unique<QueuePairStorage>(options);
  bring_up();
  for (int i = 0; i < 2; ++i) post_unsignaled(SendOperation::kWrite);
  EXPECT_EQ(asked(), Asked({true, true}));
}

TEST_F(AckRequest, TheLastOneThatIsPostedAsks) {
  bring_up();
  for (int i = 0; i < 2; ++i) {
    post_unsignaled(SendOperation::kWrite);
    EXPECT_EQ(asked(), Asked({true}));
  }
}

TEST_F(AckRequest, NoRunWithoutOneIsLongerThanSixteen) {
  bring_up();
  for (int i = 0; i < 100; ++i) post_unsignaled(SendOperation::kWrite);
  const auto frames = pump();
  ASSERT_EQ(frames.size(), 100u);
  for (size_t i = 0; i < frames.size(); ++i)
    EXPECT_EQ(frames[i].ack_request(), frames[i].psn() % 16 == 15 || i == 99) << i;
}

TEST_F(AckRequest, WhoWaitsForAReadLeavesItToThat) {
  bring_up();
  post_unsignaled(SendOperation::kRead);
  post_unsignaled(SendOperation::kWrite);
  post_unsignaled(SendOperation::kWrite).fence = true;
  EXPECT_EQ(asked(), Asked({true, false}));
  receive(Operation::kReadResponseOnly, 100, pattern(10));
  EXPECT_EQ(asked(), Asked({true}));
}

TEST_F(AckRequest, BeforeASendForWhichThePeerHasNoReceiveItIsAskedFor) {
  bring_up();
  post(SendOperation::kSend, 1);
  pump();
  receive_credits(100, 1, 2);
  for (int i = 0; i < 3; ++i) post_unsignaled(SendOperation::kSend);
  EXPECT_EQ(asked(), Asked({false, true}));
  receive_credits(102, 3, 2);
  EXPECT_EQ(asked(), Asked({true}));
}

// What is behind it may wait for what is before it to be answered.

TEST_F(AckRequest, BeforeALocalInvalidateTheLastPacketGoesOnceMoreAndAsks) {
  bring_up();
  post_unsignaled(SendOperation::kWrite);
  post_unsignaled(SendOperation::kLocalInvalidate, 0).invalidate = {0xDEAD00};
  const auto frames = pump();
  ASSERT_EQ(frames.size(), 2u);
  EXPECT_FALSE(frames[0].ack_request());
  EXPECT_EQ(frames[1].psn(), frames[0].psn());
  EXPECT_TRUE(frames[1].ack_request());
  receive_ack(100);
  pump();
  expect_failed_send(CompletionStatus::kWindowBindError);
}

TEST_F(AckRequest, WhenTheMessageBehindCannotGoTheLastPacketGoesOnceMoreAndAsks) {
  bring_up();
  post_unsignaled(SendOperation::kWrite);
  post_unsignaled(SendOperation::kSend, kMtu + 1);
  sends.segments(post(SendOperation::kSend, 10))[0].lkey = {0xDEAD00};
  auto frames = pump();
  ASSERT_EQ(frames.size(), 4u);
  EXPECT_FALSE(frames[0].ack_request() || frames[1].ack_request() || frames[2].ack_request());
  EXPECT_EQ(frames[3].psn(), frames[2].psn());
  EXPECT_EQ(frames[3].operation(), Operation::kSendLast);
  EXPECT_EQ(frames[3].payload(), frames[2].payload());
  EXPECT_TRUE(frames[3].ack_request());
  EXPECT_TRUE(pump().empty()) << "once";
  receive_ack(102);
  pump();
  expect_failed_send(CompletionStatus::kLocalProtectionError);
}

TEST_F(AckRequest, SoItDoesWhenTheSecondPacketOfAMessageCannotGo) {
  bring_up();
  post_unsignaled(SendOperation::kWrite);
  queue::SendRequest& broken = post(SendOperation::kWrite, 2 * kMtu);
  broken.segments = 2;
  sends.segments(broken)[0] = segment(0, kMtu);
  sends.segments(broken)[1] = {kIova, kMtu, {0xDEAD00}};
  const auto frames = pump();
  ASSERT_EQ(frames.size(), 3u);
  EXPECT_FALSE(frames[0].ack_request() || frames[1].ack_request());
  EXPECT_EQ(frames[2].operation(), Operation::kWriteFirst);
  EXPECT_EQ(frames[2].psn(), 101u);
  EXPECT_TRUE(frames[2].ack_request());
  receive_ack(101);
  pump();
  expect_failed_send(CompletionStatus::kLocalProtectionError);
}

TEST_F(AckRequest, SoItDoesWhenTheQueuePairIsDrained) {
  bring_up();
  for (int i = 0; i < 4; ++i) post_unsignaled(SendOperation::kWrite);
  pump_once(2);
  ASSERT_EQ(take_sent().size(), 2u);
  attributes.notify_drained = true;
  ASSERT_EQ(modify(State::kSqd, kMaskEnSqdAsyncNotify), 0);
  // The third one has its number already, the fourth one does not go.
  EXPECT_EQ(asked(), Asked({false, true}));
  receive_ack(102);
  EXPECT_EQ(events.list, std::vector{Event::kSendQueueDrained});
  ASSERT_EQ(modify(State::kRts), 0);
  EXPECT_EQ(asked(), Asked({true}));
}

/// What was lost goes again, and all of it asks: the answer to the first packet shows what the peer has kept.
TEST_F(AckRequest, AfterALossTheMissingOneAsksAndTheLastOneDoesAgain) {
  bring_up();
  for (int i = 0; i < 3; ++i) post_unsignaled(SendOperation::kWrite);
  EXPECT_EQ(asked(), Asked({false, false, true}));
  receive_nak(wire::NakCode::kSequenceError, 101);
  EXPECT_EQ(asked(), Asked({true}));
  receive_ack(101);
  EXPECT_EQ(asked(), Asked({true}));
}

class UcAckRequest : public AckRequest {
 protected:
  UcAckRequest() : AckRequest(Type::kUc) {}
};

TEST_F(UcAckRequest, AnUnreliableServiceNeverAsksNorRepeats) {
  bring_up();
  post_unsignaled(SendOperation::kWrite, 3 * kMtu);
  sends.segments(post(SendOperation::kSend, 10))[0].lkey = {0xDEAD00};
  EXPECT_EQ(asked(), Asked({false, false, false}));
}

}  // namespace
}  // namespace uroce::qp::testing
