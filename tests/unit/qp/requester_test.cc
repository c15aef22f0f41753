#include "tests/unit/qp/fixture.h"

namespace uroce::qp::testing {
namespace {

using queue::CompletionStatus;
using queue::SendOperation;
using wire::Operation;

class Requester : public QueuePairTest {
 protected:
  Requester() { attributes.timeout = 0; }
};

TEST_F(Requester, ASendCarriesWhatTheSameTurnPlaced) {
  bring_up();
  commit_after_receive = false;
  receive_write(Operation::kWriteOnly, 5000, 60, 30, pattern(30, 12));
  post(SendOperation::kSend, 30, 60);
  const auto frames = pump();
  ASSERT_EQ(frames.size(), 2u);  // the ACK first
  EXPECT_EQ(frames[1].payload(), pattern(30, 12));
}

TEST_F(Requester, TheWindowStopsItAndAsksForAcksOftenEnough) {
  bring_up();
  post(SendOperation::kWrite, 400 * kMtu);
  auto frames = pump();
  ASSERT_EQ(frames.size(), SendWindow::kPackets);
  size_t without = 0;
  for (const Sent& frame : frames) {
    without = frame.ack_request() ? 0 : without + 1;
    EXPECT_LT(without, 16u);
  }
  receive_ack(100 + 9);
  frames = pump();
  ASSERT_EQ(frames.size(), 10u);
  EXPECT_EQ(frames[0].psn(), 100 + SendWindow::kPackets);
}

TEST_F(Requester, ALongReadIsAskedForInParts) {
  bring_up();
  const uint32_t part = SendWindow::kReadPackets * kMtu;
  post(SendOperation::kRead, 2 * part + 77);
  auto frames = pump();
  ASSERT_EQ(frames.size(), 2u);  // max_rd_atomic
  EXPECT_EQ(frames[0].reth().length, part);
  EXPECT_EQ(frames[1].psn(), 100 + SendWindow::kReadPackets);
  EXPECT_EQ(frames[1].reth().address, kRemote + part);
  for (uint32_t i = 0; i < 2 * SendWindow::kReadPackets; ++i) {
    EXPECT_TRUE(pump().empty() || i == SendWindow::kReadPackets) << i;
    receive(Operation::kReadResponseMiddle, 100 + i, pattern(kMtu, i));
  }
  EXPECT_TRUE(send_completions().empty());
  receive(Operation::kReadResponseOnly, 100 + 2 * SendWindow::kReadPackets, pattern(77, 5));
  EXPECT_EQ(send_completions().size(), 1u);
  EXPECT_EQ(memory_at(2 * part, 77), pattern(77, 5));
}

TEST_F(Requester, ReadsFillTheWindowWithTheirResponses) {
  attributes.max_rd_atomic = 100;
  bring_up();
  post(SendOperation::kRead, 1000 * kMtu);
  EXPECT_EQ(pump().size(), SendWindow::kPackets / SendWindow::kReadPackets);
}

TEST_F(Requester, UnsignaledRequestsCompleteSilently) {
  bring_up();
  post(SendOperation::kSend, 1).signaled = false;
  post(SendOperation::kSend, 1);
  pump();
  receive_ack(101);
  EXPECT_EQ(send_completions().size(), 1u);
  EXPECT_EQ(sends.outstanding(), 0u);
}

TEST_F(Requester, AMessageThatIsTooLongIsALengthError) {
  bring_up();
  post(SendOperation::kWrite, kMessageBytesMax + 1);
  EXPECT_TRUE(pump().empty());
  expect_failed_send(CompletionStatus::kLocalLengthError);
}

}  // namespace
}  // namespace uroce::qp::testing
