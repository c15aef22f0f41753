#include "tests/unit/qp/fixture.h"

namespace uroce::qp::testing {
namespace {

using queue::CompletionStatus;
using queue::SendOperation;
using wire::Operation;

/// UC: requests and nothing else. What is lost is lost, and no more than its message.
class UnreliableConnection : public QueuePairTest {
 protected:
  UnreliableConnection() : QueuePairTest(Type::kUc) {}
};

TEST_F(UnreliableConnection, WhatWasSentIsCompleteAndAsksForNoAck) {
  bring_up();
  post(SendOperation::kSend, 2 * kMtu + 1);
  post(SendOperation::kWriteImm, 10);
  const auto frames = pump();
  ASSERT_EQ(frames.size(), 4u);
  EXPECT_EQ(frames[0].operation(), Operation::kSendFirst);
  EXPECT_EQ(frames[1].operation(), Operation::kSendMiddle);
  EXPECT_EQ(frames[2].operation(), Operation::kSendLast);
  EXPECT_EQ(frames[3].operation(), Operation::kWriteOnlyImm);
  for (size_t i = 0; i < frames.size(); ++i) {
    EXPECT_EQ(frames[i].packet.row->opcode.service(), wire::Service::kUc);
    EXPECT_EQ(frames[i].psn(), 100 + i);
    EXPECT_FALSE(frames[i].ack_request());
  }
  const auto done = send_completions();
  ASSERT_EQ(done.size(), 2u);
  for (const auto& completion : done) EXPECT_EQ(completion.status, CompletionStatus::kSuccess);
  EXPECT_EQ(queue_pair->deadline(), kNever) << "there is nothing to wait for";
}

TEST_F(UnreliableConnection, SendsMoreThanAWindowWithoutAnAnswer) {
  bring_up();
  for (uint32_t i = 0; i < 2 * SendWindow::kPackets; ++i) post(SendOperation::kWrite, 1);
  EXPECT_EQ(pump().size(), 2 * SendWindow::kPackets);
  EXPECT_EQ(send_completions().size(), 2 * SendWindow::kPackets);
}

TEST_F(UnreliableConnection, MessagesArriveWithoutACompletion) {
  bring_up();
  post_receive(600, 4000);
  receive(Operation::kSendFirst, 5000, pattern(kMtu, 1), true);
  receive(Operation::kSendLast, 5001, pattern(7, 2), true);
  receive_write(Operation::kWriteOnly, 5002, 9000, 5, pattern(5, 3));
  const auto done = receive_completions();
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].bytes, kMtu + 7);
  EXPECT_EQ(memory_at(4000, kMtu), pattern(kMtu, 1));
  EXPECT_EQ(memory_at(4000 + kMtu, 7), pattern(7, 2));
  EXPECT_EQ(memory_at(9000, 5), pattern(5, 3));
  EXPECT_TRUE(pump().empty());
}

TEST_F(UnreliableConnection, AGapDropsTheRestOfItsMessageAndTheNextOneIsWhole) {
  bring_up();
  post_receive(2000, 4000);
  receive(Operation::kSendFirst, 5000, pattern(kMtu, 1));
  receive(Operation::kSendMiddle, 5002, pattern(kMtu, 2));  // 5001 was lost
  receive(Operation::kSendLast, 5003, pattern(9, 3));
  EXPECT_TRUE(receive_completions().empty());
  EXPECT_EQ(counter(Counter::kDropSequence), 2u);
  // The same receive serves the next one, wherever its PSNs are.
  receive(Operation::kSendFirst, 6000, pattern(kMtu, 4));
  receive(Operation::kSendLast, 6001, pattern(9, 5));
  const auto done = receive_completions();
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].bytes, kMtu + 9);
  EXPECT_EQ(memory_at(4000, kMtu), pattern(kMtu, 4));
  EXPECT_EQ(memory_at(4000 + kMtu, 9), pattern(9, 5));
  EXPECT_TRUE(pump().empty());
}

TEST_F(UnreliableConnection, AMessageThatLostItsEndMakesWayForTheNext) {
  bring_up();
  post_receive(2000, 4000);
  receive(Operation::kSendFirst, 5000, pattern(kMtu, 1));
  receive(Operation::kSendOnly, 5002, pattern(4, 2));
  const auto done = receive_completions();
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].bytes, 4u);
  EXPECT_EQ(memory_at(4000, 4), pattern(4, 2));
}

TEST_F(UnreliableConnection, ARequestThatIsRefusedIsDroppedInSilence) {
  bring_up();
  const Bytes before = memory_at(0, 100);
  receive(Operation::kSendOnly, 5000, pattern(4));  // nothing was posted
  EXPECT_EQ(counter(Counter::kDropNoReceive), 1u);
  post_receive(3, 0);
  receive(Operation::kSendOnly, 5001, pattern(4));
  EXPECT_EQ(counter(Counter::kDropTooLong), 1u);
  wire::Headers headers = from_peer(Operation::kWriteOnly, 5002);
  headers.reth = {kIova, read_only_keys.rkey, 4};
  receive(headers, pattern(4));
  EXPECT_EQ(counter(Counter::kDropRemoteAccess), 1u);
  headers.reth = {kIova, keys.rkey, 5};
  headers.bth.psn = Psn(5003);
  receive(headers, pattern(4));
  EXPECT_EQ(counter(Counter::kDropInvalidRequest), 1u);
  EXPECT_EQ(memory_at(0, 100), before);
  EXPECT_TRUE(pump().empty());
  EXPECT_TRUE(receive_completions().empty());
  receive(Operation::kSendOnly, 5004, pattern(3));
  EXPECT_EQ(receive_completions().size(), 1u);
  EXPECT_EQ(queue_pair->state(), State::kRts);
}

TEST_F(UnreliableConnection, ASendThatFailsStopsSendsAndNotReceives) {
  bring_up();
  post(SendOperation::kSend, 10);
  sends.segments(post(SendOperation::kSend, 10))[0].lkey = {0xBAD};
  post(SendOperation::kSend, 10);
  EXPECT_EQ(pump().size(), 1u);
  EXPECT_EQ(queue_pair->state(), State::kSqe);
  auto done = send_completions();
  ASSERT_EQ(done.size(), 3u);
  EXPECT_EQ(done[0].status, CompletionStatus::kSuccess);
  EXPECT_EQ(done[1].status, CompletionStatus::kLocalProtectionError);
  EXPECT_EQ(done[2].status, CompletionStatus::kFlushed);

  post_receive(10, 4000);
  receive(Operation::kSendOnly, 5000, pattern(10, 1));
  EXPECT_EQ(receive_completions().size(), 1u);
  // What is posted meanwhile is flushed, too.
  post(SendOperation::kSend, 10);
  EXPECT_TRUE(pump().empty());
  done = send_completions();
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].status, CompletionStatus::kFlushed);

  ASSERT_EQ(modify(State::kRts), 0);
  post(SendOperation::kSend, 10);
  EXPECT_EQ(pump().size(), 1u);
  EXPECT_EQ(send_completions()[0].status, CompletionStatus::kSuccess);
}

TEST_F(UnreliableConnection, PacketsOfAnotherServiceAreDropped) {
  bring_up();
  post_receive(10);
  wire::Headers headers = from_peer(Operation::kSendOnly, 5000);
  headers.bth.opcode = wire::Opcode::make(wire::Service::kRc, Operation::kSendOnly);
  receive(headers, pattern(4));
  EXPECT_TRUE(receive_completions().empty());
  EXPECT_EQ(counter(Counter::kDropService), 1u);
}

}  // namespace
}  // namespace uroce::qp::testing
