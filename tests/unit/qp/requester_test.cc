#include "tests/unit/qp/fixture.h"

namespace uroce::qp::testing {
namespace {

using queue::CompletionOpcode;
using queue::CompletionStatus;
using queue::SendOperation;
using wire::Operation;

class Requester : public QueuePairTest {
 protected:
  Requester() { attributes.timeout = 0; }
};

std::vector<Operation> operations(const std::vector<Sent>& frames) {
  std::vector<Operation> result;
  for (const Sent& frame : frames) result.push_back(frame.operation());
  return result;
}

TEST_F(Requester, CutsASendIntoFirstMiddleLast) {
  bring_up();
  post(SendOperation::kSend, 2 * kMtu + 5);

  const auto frames = pump();
  EXPECT_EQ(operations(frames),
            (std::vector{Operation::kSendFirst, Operation::kSendMiddle, Operation::kSendLast}));
  Bytes all;
  for (size_t i = 0; i < frames.size(); ++i) {
    EXPECT_EQ(frames[i].psn(), 100 + i);
    EXPECT_EQ(frames[i].ack_request(), i == 2);
    const Bytes payload = frames[i].payload();
    all.insert(all.end(), payload.begin(), payload.end());
  }
  EXPECT_EQ(all, memory_at(0, 2 * kMtu + 5));
}

TEST_F(Requester, AWholeNumberOfPacketsHasNoEmptyLast) {
  bring_up();
  post(SendOperation::kWrite, 2 * kMtu);
  const auto frames = pump();
  EXPECT_EQ(operations(frames), (std::vector{Operation::kWriteFirst, Operation::kWriteLast}));
  EXPECT_EQ(frames[1].payload().size(), kMtu);
}

TEST_F(Requester, EveryOperationHasItsOpcode) {
  bring_up();
  const auto one = [this](SendOperation operation, uint32_t length) {
    post(operation, length).immediate = 0x12345678;
    return pump();
  };
  EXPECT_EQ(operations(one(SendOperation::kSend, 1)), std::vector{Operation::kSendOnly});
  EXPECT_EQ(operations(one(SendOperation::kSendImm, 1)), std::vector{Operation::kSendOnlyImm});
  EXPECT_EQ(operations(one(SendOperation::kWrite, 1)), std::vector{Operation::kWriteOnly});
  EXPECT_EQ(operations(one(SendOperation::kWriteImm, 1)), std::vector{Operation::kWriteOnlyImm});
  EXPECT_EQ(operations(one(SendOperation::kRead, 1)), std::vector{Operation::kReadRequest});
  const auto send = one(SendOperation::kSendImm, kMtu + 1);
  EXPECT_EQ(operations(send), (std::vector{Operation::kSendFirst, Operation::kSendLastImm}));
  EXPECT_EQ(send[1].packet.headers.immediate, 0x12345678u);
  const auto write = one(SendOperation::kWriteImm, kMtu + 1);
  EXPECT_EQ(operations(write), (std::vector{Operation::kWriteFirst, Operation::kWriteLastImm}));
  EXPECT_EQ(write[0].reth().address, kRemote);
  EXPECT_EQ(write[0].reth().rkey.value, kRkey);
  EXPECT_EQ(write[0].reth().length, kMtu + 1);
}

TEST_F(Requester, ZeroLengthMessagesTakeOnePsnEach) {
  bring_up();
  post(SendOperation::kSend, 0).segments = 0;
  post(SendOperation::kWrite, 0).segments = 0;
  post(SendOperation::kRead, 0).segments = 0;
  const auto frames = pump();
  ASSERT_EQ(frames.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(frames[i].psn(), 100 + i);
    EXPECT_TRUE(frames[i].payload().empty());
  }
}

TEST_F(Requester, ThePsnWrapsInsideAMessage) {
  attributes.sq_psn = Psn(0xFFFFFF);
  bring_up();
  post(SendOperation::kSend, 3 * kMtu);
  const auto frames = pump();
  ASSERT_EQ(frames.size(), 3u);
  EXPECT_EQ(frames[0].psn(), 0xFFFFFFu);
  EXPECT_EQ(frames[1].psn(), 0u);
  EXPECT_EQ(frames[2].psn(), 1u);
  receive_ack(1);
  EXPECT_EQ(send_completions().size(), 1u);
}

TEST_F(Requester, GathersSegmentsAndSkipsEmptyOnes) {
  bring_up();
  queue::SendRequest& request = post(SendOperation::kSend, 300);
  request.segments = 4;
  sends.segments(request)[0] = segment(1000, 10);
  sends.segments(request)[1] = {0xDEAD, 0, {0xDEAD00}};
  sends.segments(request)[2] = segment(5000, 200);
  sends.segments(request)[3] = segment(40, 90);
  const auto frames = pump();
  ASSERT_EQ(frames.size(), 2u);
  Bytes expected = memory_at(1000, 10);
  const Bytes second = memory_at(5000, 200);
  const Bytes third = memory_at(40, 90);
  expected.insert(expected.end(), second.begin(), second.end());
  expected.insert(expected.end(), third.begin(), third.end());
  Bytes sent = frames[0].payload();
  const Bytes rest = frames[1].payload();
  sent.insert(sent.end(), rest.begin(), rest.end());
  EXPECT_EQ(sent, expected);
}

TEST_F(Requester, ASendCarriesWhatTheSameTurnPlaced) {
  bring_up();
  commit_after_receive = false;
  receive_write(Operation::kWriteOnly, 5000, 60, 30, pattern(30, 12));
  post(SendOperation::kSend, 30, 60);
  const auto frames = pump();
  ASSERT_EQ(frames.size(), 2u);  // the ACK first
  EXPECT_EQ(frames[1].payload(), pattern(30, 12));
}

TEST_F(Requester, InlineDataIsTakenFromTheRequest) {
  bring_up();
  queue::SendRequest& request = post(SendOperation::kSend, 500);
  request.segments = 0;
  request.inline_data = true;
  const Bytes data = pattern(500, 3);
  std::copy(data.begin(), data.end(), sends.inline_bytes(request));
  const auto frames = pump();
  ASSERT_EQ(frames.size(), 2u);
  EXPECT_EQ(frames[0].payload(), Bytes(data.begin(), data.begin() + kMtu));
  EXPECT_EQ(frames[1].payload(), Bytes(data.begin() + kMtu, data.end()));
}

TEST_F(Requester, TheSolicitedBitIsOnTheLastPacketOnly) {
  bring_up();
  post(SendOperation::kSend, kMtu + 1).solicited = true;
  const auto frames = pump();
  EXPECT_FALSE(frames[0].packet.headers.bth.solicited);
  EXPECT_TRUE(frames[1].packet.headers.bth.solicited);
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

TEST_F(Requester, AFenceWaitsForEarlierReadsAndNoFenceDoesNot) {
  bring_up();
  post(SendOperation::kRead, 10);
  post(SendOperation::kWrite, 10);
  post(SendOperation::kSend, 10).fence = true;
  EXPECT_EQ(operations(pump()), (std::vector{Operation::kReadRequest, Operation::kWriteOnly}));
  wire::Headers headers = from_peer(Operation::kReadResponseOnly, 100);
  receive(headers, pattern(10));
  EXPECT_EQ(operations(pump()), std::vector{Operation::kSendOnly});
}

TEST_F(Requester, NoMoreReadsThanThePeerTakes) {
  bring_up();
  for (int i = 0; i < 3; ++i) post(SendOperation::kRead, 10);
  post(SendOperation::kSend, 10);
  EXPECT_EQ(pump().size(), 2u);  // max_rd_atomic; the SEND waits behind the third
  receive(Operation::kReadResponseOnly, 100, pattern(10));
  EXPECT_EQ(operations(pump()), (std::vector{Operation::kReadRequest, Operation::kSendOnly}));
}

TEST_F(Requester, AReadTakesAsManyPsnsAsItHasResponses) {
  bring_up();
  post(SendOperation::kRead, 3 * kMtu + 1);
  post(SendOperation::kSend, 1);
  const auto frames = pump();
  ASSERT_EQ(frames.size(), 2u);
  EXPECT_EQ(frames[0].psn(), 100u);
  EXPECT_EQ(frames[0].reth().length, 3 * kMtu + 1);
  EXPECT_EQ(frames[1].psn(), 104u);
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

TEST_F(Requester, ALocalProtectionErrorWaitsForEarlierRequests) {
  bring_up();
  post(SendOperation::kSend, 1);
  queue::SendRequest& bad = post(SendOperation::kSend, 1);
  sends.segments(bad)[0].lkey.value ^= 1;
  post(SendOperation::kSend, 1);
  EXPECT_EQ(pump().size(), 1u);
  EXPECT_EQ(queue_pair->state(), State::kRts);
  receive_ack(100);
  pump();
  const auto done = send_completions();
  ASSERT_EQ(done.size(), 3u);
  EXPECT_EQ(done[0].status, CompletionStatus::kSuccess);
  EXPECT_EQ(done[1].status, CompletionStatus::kLocalProtectionError);
  EXPECT_EQ(done[1].wr_id, bad.wr_id);
  EXPECT_EQ(done[2].status, CompletionStatus::kFlushed);
  EXPECT_EQ(queue_pair->state(), State::kErr);
}

TEST_F(Requester, AReadIntoMemoryThatMayNotBeWrittenIsNotAskedFor) {
  bring_up();
  queue::SendRequest& bad = post(SendOperation::kRead, 8);
  sends.segments(bad)[0].lkey = read_only_keys.lkey;
  EXPECT_TRUE(pump().empty());
  expect_failed_send(CompletionStatus::kLocalProtectionError);
}

TEST_F(Requester, AReadWithoutInitiatorDepthIsAnOperationError) {
  attributes.max_rd_atomic = 0;
  bring_up();
  post(SendOperation::kRead, 8);
  EXPECT_TRUE(pump().empty());
  expect_failed_send(CompletionStatus::kLocalQpOperationError);
}

TEST_F(Requester, AMessageThatIsTooLongIsALengthError) {
  bring_up();
  post(SendOperation::kWrite, kMessageBytesMax + 1);
  EXPECT_TRUE(pump().empty());
  expect_failed_send(CompletionStatus::kLocalLengthError);
}

}  // namespace
}  // namespace uroce::qp::testing
