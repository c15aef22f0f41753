// Messages whose memory is gone when their burst is committed: they and what came behind them in the burst
// are taken back. What one message meets is tests/unit/engine/memory_gone_test.cc.
#include <algorithm>
#include <cstring>

#include "tests/unit/copy/fault_catcher.h"
#include "tests/unit/copy/vanishing_memory.h"
#include "tests/unit/qp/fixture.h"

namespace uroce::qp::testing {
namespace {

using queue::CompletionStatus;
using queue::SendOperation;
using uroce::testing::FaultCatcher;
using uroce::testing::Vanishing;
using uroce::testing::VanishingMemory;
using wire::Operation;

class MemoryGone : public QueuePairTest {
 protected:
  static constexpr uint64_t kGoneIova = 0x90000000;
  using Statuses = std::vector<CompletionStatus>;

  MemoryGone() {
    gone_keys_ = register_region(gone_.data(), gone_.size(), kGoneIova,
                                 mem::kLocalWrite | mem::kRemoteWrite | mem::kRemoteRead);
    gone_.vanish(Vanishing::kNoAccess);
    commit_after_receive = false;
    attributes.timeout = 0;
    attributes.max_rd_atomic = attributes.max_dest_rd_atomic = 8;
    bring_up();
  }

  void receive_only(Operation operation, uint32_t psn, const Bytes& payload, uint64_t address,
                    MemoryKey rkey) {
    wire::Headers headers = from_peer(operation, psn);
    headers.bth.ack_request = true;
    headers.reth = {address, rkey, static_cast<uint32_t>(payload.size())};
    receive(headers, payload);
  }
  void receive_write_to_gone(uint32_t psn, const Bytes& payload) {
    receive_only(Operation::kWriteOnly, psn, payload, kGoneIova, gone_keys_.rkey);
  }
  void receive_write_here(uint32_t psn, uint64_t offset, const Bytes& payload) {
    receive_only(Operation::kWriteOnly, psn, payload, kIova + offset, keys.rkey);
  }
  /// The peer's answer to the READ with that PSN.
  void receive_response(uint32_t psn, const Bytes& payload) {
    wire::Headers headers = from_peer(Operation::kReadResponseOnly, psn);
    headers.aeth = wire::Aeth::ack(0);
    receive(headers, payload);
  }
  queue::SendRequest& post_read(uint32_t length, bool into_gone, bool signaled = true) {
    queue::SendRequest& request = post(SendOperation::kRead, length);
    request.signaled = signaled;
    if (into_gone) sends.segments(request)[0] = {kGoneIova, length, gone_keys_.lkey};
    return request;
  }
  void end_burst() {
    commit_placements(turn);
    completions.publish_all();
    burst.clear();
  }
  static Statuses statuses(const std::vector<queue::Completion>& completions) {
    Statuses result;
    for (const queue::Completion& completion : completions) result.push_back(completion.status);
    return result;
  }

  const FaultCatcher catcher_;
  const VanishingMemory gone_{1};
  mem::RegionKeys gone_keys_;
};

constexpr CompletionStatus kSuccess = CompletionStatus::kSuccess;
constexpr CompletionStatus kFlushed = CompletionStatus::kFlushed;
constexpr CompletionStatus kProtection = CompletionStatus::kLocalProtectionError;

TEST_F(MemoryGone, ReceiveABurstWithALostWrite_ExpectANakForItAndLaterTailsLeftOut) {
  receive_write_here(5000, 0, pattern(8, 1));
  receive_write_here(5001, 100, pattern(8, 2));
  receive_write_to_gone(5002, pattern(8, 3));
  receive_write_here(5003, 200, pattern(8, 4));
  const Bytes before = memory_at(200, 8);
  end_burst();
  EXPECT_EQ(memory_at(0, 8), pattern(8, 1));
  EXPECT_EQ(memory_at(100, 8), pattern(8, 2));
  EXPECT_EQ(memory_at(200, 8), before);
  const auto frames = pump();
  expect_nak(frames, wire::NakCode::kRemoteAccess, 5002);
  EXPECT_EQ(frames[0].aeth().msn, 2u);
  EXPECT_EQ(queue_pair->state(), State::kErr);
  EXPECT_EQ(counter(Counter::kMemoryGone), 1u);
}

TEST_F(MemoryGone, ReceiveAReadBehindALostWrite_ExpectNoResponseToIt) {
  receive_read(5000, 0, 10);
  receive_write_to_gone(5001, pattern(8));
  receive_read(5002, 0, 10);
  end_burst();
  const auto frames = pump();
  ASSERT_EQ(frames.size(), 2u);
  EXPECT_EQ(frames[0].operation(), Operation::kReadResponseOnly);
  EXPECT_EQ(frames[0].psn(), 5000u);
  EXPECT_EQ(frames[1].aeth().kind, wire::AethKind::kNak);
  EXPECT_EQ(frames[1].psn(), 5001u);
}

TEST_F(MemoryGone, ReceiveTwoLostMessages_ExpectTheFirstToCount) {
  post_receive(8, 0);
  post_receive_pieces({{kGoneIova, 8, gone_keys_.lkey}});
  post_receive(8, 0);
  receive(Operation::kSendOnly, 5000, pattern(8));
  receive(Operation::kSendOnly, 5001, pattern(8));
  receive_write_to_gone(5002, pattern(8));
  receive(Operation::kSendOnly, 5003, pattern(8));
  end_burst();
  EXPECT_EQ(statuses(receive_completions()), (Statuses{kSuccess, kProtection, kFlushed}));
  expect_nak(pump(), wire::NakCode::kRemoteOperational, 5001);
}

TEST_F(MemoryGone, ReceiveARefusedRequestBehindALostOne_ExpectTheLostOneAnswered) {
  post_receive_pieces({{kGoneIova, 8, gone_keys_.lkey}});
  post_receive(8, 0);
  receive(Operation::kSendOnly, 5000, pattern(8));
  receive(Operation::kSendOnly, 5001, pattern(9));  // too long
  end_burst();
  EXPECT_EQ(statuses(receive_completions()), (Statuses{kProtection, kFlushed}));
  expect_nak(pump(), wire::NakCode::kRemoteOperational, 5000);
}

/// The second message's body commits the first one's tail, which is lost: neither is reported as received.
TEST_F(MemoryGone, ReceiveAMessageOverALostTail_ExpectBothTakenBack) {
  post_receive_pieces({{kGoneIova, 8, gone_keys_.lkey}});
  post_receive_pieces({{kGoneIova, 8, gone_keys_.lkey}});
  receive(Operation::kSendOnly, 5000, pattern(8));
  receive(Operation::kSendOnly, 5001, pattern(8));
  end_burst();
  EXPECT_EQ(statuses(receive_completions()), (Statuses{kProtection, kFlushed}));
  expect_nak(pump(), wire::NakCode::kRemoteOperational, 5000);
}

TEST_F(MemoryGone, ReceiveReadDataThatIsLost_ExpectItsCompletionRevisedAndLaterOnesFlushed) {
  const uint64_t first = post_read(8, false).wr_id;
  post_read(8, true);
  post_read(8, false);
  post(SendOperation::kSend, 8);
  pump();
  for (uint32_t psn = 100; psn < 103; ++psn) receive_response(psn, pattern(8));
  end_burst();
  const auto done = send_completions();
  EXPECT_EQ(statuses(done), (Statuses{kSuccess, kProtection, kFlushed, kFlushed}));
  for (size_t i = 0; i < done.size(); ++i) EXPECT_EQ(done[i].wr_id, first + i);
  EXPECT_EQ(queue_pair->state(), State::kErr);
  EXPECT_EQ(counter(Counter::kMemoryGone), 1u);
}

TEST_F(MemoryGone, ReceiveDataOfALostUnsignalledRead_ExpectItReportedInItsPlace) {
  const uint64_t first = post_read(8, false).wr_id;
  post_read(8, true, false);
  post_read(8, false);
  post_read(8, true);
  post_read(8, false);
  pump();
  for (uint32_t psn = 100; psn < 105; ++psn) receive_response(psn, pattern(8));
  end_burst();
  const auto done = send_completions();
  EXPECT_EQ(statuses(done), (Statuses{kSuccess, kProtection, kFlushed, kFlushed, kFlushed}));
  for (size_t i = 0; i < done.size(); ++i) EXPECT_EQ(done[i].wr_id, first + i);
}

/// Requests that came in and our own READs are two rows: losing one leaves the other's successes.
TEST_F(MemoryGone, ReceiveALostSendBesideReadData_ExpectTheReadComplete) {
  post_receive_pieces({{kGoneIova, 8, gone_keys_.lkey}});
  post_read(8, false);
  post(SendOperation::kSend, 8);
  pump();
  receive(Operation::kSendOnly, 5000, pattern(8));
  receive_response(100, pattern(8, 5));
  end_burst();
  EXPECT_EQ(statuses(receive_completions()), (Statuses{kProtection}));
  EXPECT_EQ(statuses(send_completions()), (Statuses{kSuccess, kFlushed}));
  EXPECT_EQ(memory_at(0, 8), pattern(8, 5));
}

TEST_F(MemoryGone, GatherInTheMiddleOfAMessage_ExpectItToFailWhenEverythingBeforeIsAcknowledged) {
  post(SendOperation::kSend, 8);
  queue::SendRequest& request = post(SendOperation::kWrite, 2 * kMtu);
  request.segments = 2;
  sends.segments(request)[0] = segment(0, kMtu);
  sends.segments(request)[1] = {kGoneIova, kMtu, gone_keys_.lkey};
  const auto frames = pump();
  ASSERT_EQ(frames.size(), 2u);
  EXPECT_EQ(frames[1].operation(), Operation::kWriteFirst);
  EXPECT_TRUE(send_completions().empty());
  receive_ack(100);
  pump();
  EXPECT_EQ(statuses(send_completions()), (Statuses{kSuccess, kProtection}));
  EXPECT_EQ(queue_pair->state(), State::kErr);
}

}  // namespace
}  // namespace uroce::qp::testing
