// SEND with invalidate, at both ends.
#include <cerrno>
#include <vector>

#include "tests/unit/qp/fast_registration.h"

namespace uroce::qp::testing {
namespace {

using mem::Fault;
using queue::CompletionOpcode;
using queue::CompletionStatus;
using queue::SendOperation;
using wire::AethKind;
using wire::NakCode;
using wire::Operation;

constexpr uint32_t kPsn = 5000;

class RemoteInvalidation : public FastRegistrationTest {
 protected:
  void receive_send(Operation operation, uint32_t psn, const Bytes& payload, MemoryKey invalidate) {
    wire::Headers headers = from_peer(operation, psn);
    headers.bth.ack_request = true;
    headers.invalidate = invalidate;
    receive(headers, payload);
  }
  void expect_received(MemoryKey invalidated, uint32_t bytes) {
    const std::vector<queue::Completion> done = receive_completions();
    ASSERT_EQ(done.size(), 1u);
    EXPECT_EQ(done[0].status, CompletionStatus::kSuccess);
    EXPECT_EQ(done[0].opcode, CompletionOpcode::kReceive);
    EXPECT_EQ(done[0].bytes, bytes);
    EXPECT_TRUE(done[0].has_invalidated);
    EXPECT_FALSE(done[0].has_immediate);
    EXPECT_EQ(done[0].immediate, invalidated.value);
  }
  void expect_ack(uint32_t psn) { expect_answer(pump(), AethKind::kAck, wire::kNoCredits, psn); }
};

TEST_F(RemoteInvalidation, PostSend_ExpectTheKeyInItsLastPacketOnly) {
  bring_up();
  post(SendOperation::kSendInvalidate, 2 * kMtu + 1).invalidate = {0xABCD12};
  post(SendOperation::kSendInvalidate, 3).invalidate = {0x77};
  const std::vector<Sent> sent = pump();
  ASSERT_EQ(sent.size(), 4u);
  EXPECT_EQ(sent[0].operation(), Operation::kSendFirst);
  EXPECT_EQ(sent[1].operation(), Operation::kSendMiddle);
  EXPECT_EQ(sent[2].operation(), Operation::kSendLastInvalidate);
  EXPECT_EQ(sent[2].packet.headers.invalidate.value, 0xABCD12u);
  EXPECT_EQ(sent[3].operation(), Operation::kSendOnlyInvalidate);
  EXPECT_EQ(sent[3].packet.headers.invalidate.value, 0x77u);
  receive_ack(kOurPsn.value() + 3);
  expect_completions({{CompletionOpcode::kSend, CompletionStatus::kSuccess},
                      {CompletionOpcode::kSend, CompletionStatus::kSuccess}});
}

TEST_F(RemoteInvalidation, ReceiveOnePacket_ExpectTheDataAndTheKeyDead) {
  bring_up();
  bind(9);
  post_receive(100);
  receive_send(Operation::kSendOnlyInvalidate, kPsn, pattern(40, 5), key(9));
  EXPECT_EQ(fault(key(9)), Fault::kState);
  EXPECT_EQ(unmap(), 0);
  EXPECT_EQ(memory_at(0, 40), pattern(40, 5));
  expect_received(key(9), 40);
  expect_ack(kPsn);
}

TEST_F(RemoteInvalidation, Logged_ExpectTheKeyAndTheQueuePair) {
  struct : NoticeListener {
    void note(const Notice& notice) override {
      if (notice.kind == Notice::Kind::kInvalidated) all.push_back(notice);
    }
    std::vector<Notice> all;
  } recorded;
  bring_up();
  turn.notices = &recorded;
  bind(9);
  post_receive(100);
  receive_send(Operation::kSendOnlyInvalidate, kPsn, pattern(40, 5), key(9));
  ASSERT_EQ(recorded.all.size(), 1u);
  EXPECT_EQ(recorded.all[0].key, key(9));
  EXPECT_EQ(recorded.all[0].queue_pair, options.number);
}

TEST_F(RemoteInvalidation, ReceiveSeveralPackets_ExpectTheKeyToLiveUntilTheLast) {
  bring_up();
  bind(9);
  post_receive(1000);
  receive(Operation::kSendFirst, kPsn, pattern(kMtu, 1));
  receive(Operation::kSendMiddle, kPsn + 1, pattern(kMtu, 2));
  EXPECT_EQ(fault(key(9)), Fault::kNone);
  receive_send(Operation::kSendLastInvalidate, kPsn + 2, pattern(7, 3), key(9));
  EXPECT_EQ(fault(key(9)), Fault::kState);
  expect_received(key(9), 2 * kMtu + 7);
  expect_ack(kPsn + 2);
}

/// It may name the region that it is received into: that is the last that this key moves.
TEST_F(RemoteInvalidation, IntoTheRegionItself_ExpectTheData) {
  bring_up();
  bind(9);
  post_receive_pieces({{kFastIova, 100, key(9)}});
  receive_send(Operation::kSendOnlyInvalidate, kPsn, pattern(100, 4), key(9));
  expect_received(key(9), 100);
  EXPECT_EQ(Bytes(page(0), page(0) + 100), pattern(100, 4));
}

TEST_F(RemoteInvalidation, SentTwice_ExpectAnAckAndNothingElse) {
  bring_up();
  bind(9);
  post_receive(100);
  post_receive(100);
  receive_send(Operation::kSendOnlyInvalidate, kPsn, pattern(4), key(9));
  bind(9);
  receive_send(Operation::kSendOnlyInvalidate, kPsn, pattern(4), key(9));
  EXPECT_EQ(fault(key(9)), Fault::kNone);
  EXPECT_EQ(receive_completions().size(), 1u);
  expect_ack(kPsn);
}

/// The peer need not know that the owner was faster: the message is received as any other.
TEST_F(RemoteInvalidation, OfWhatIsFree_ExpectTheDataAndNoNotice) {
  bring_up();
  bind(9);
  post_receive(100);
  post_receive(100);
  receive_send(Operation::kSendOnlyInvalidate, kPsn, pattern(4), key(9));
  receive_send(Operation::kSendOnlyInvalidate, kPsn + 1, pattern(40, 5), key(9));
  const std::vector<queue::Completion> done = receive_completions();
  ASSERT_EQ(done.size(), 2u);
  for (const queue::Completion& completion : done) {
    EXPECT_EQ(completion.status, CompletionStatus::kSuccess);
    EXPECT_TRUE(completion.has_invalidated);
    EXPECT_EQ(completion.immediate, key(9).value);
  }
  EXPECT_EQ(memory_at(0, 40), pattern(40, 5));
  EXPECT_EQ(fault(key(9)), Fault::kState);
  expect_ack(kPsn + 1);
}

/// No part of the packet is performed; the peer gets a remote access error, and the receive that the message
/// took fails with a remote invalid request error, as it does in Linux's rxe.
TEST_F(RemoteInvalidation, WhatIsRefused_ExpectNakAndNoByte) {
  const mem::RegionKeys& user = keys;
  const std::unique_ptr<mem::FastRegion> foreign = std::move(mem::FastRegion::make(regions, {77}, 1).value());
  const uint64_t address = bus.map(fast_memory, kPage, mem::Direction::kBidirectional).value();
  mem::PageList foreign_list(bus, 1);
  foreign_list.addresses()[0] = address;
  ASSERT_EQ(foreign_list.post({1, 12, 0, kPage}, kAll), 0);
  ASSERT_EQ(mem::bind_fast_region(regions,
                                  {foreign->first_key(), foreign->first_key(), kAll, 0, &foreign_list}, {77}),
            mem::Outcome::kDone);
  bind(9);
  struct Case {
    const char* name;
    MemoryKey key;
  };
  for (const Case& wrong : std::vector<Case>{{"no such key", {0xFFFFFF01}},
                                             {"the index's old key", key(8)},
                                             {"another domain", foreign->first_key()},
                                             {"a user region", user.rkey}}) {
    SCOPED_TRACE(wrong.name);
    ASSERT_EQ(modify(State::kReset), 0);
    bring_up();
    const Bytes before = memory;
    post_receive(100);
    post_receive(100);
    receive_send(Operation::kSendOnlyInvalidate, kPsn, pattern(50, 8), wrong.key);
    EXPECT_EQ(queue_pair->state(), State::kErr);
    expect_nak(pump(), NakCode::kRemoteAccess, kPsn);
    EXPECT_EQ(memory, before);
    const auto done = receive_completions();
    ASSERT_EQ(done.size(), 2u);
    EXPECT_EQ(done[0].status, CompletionStatus::kRemoteInvalidRequest);
    EXPECT_FALSE(done[0].has_invalidated);
    EXPECT_EQ(done[1].status, CompletionStatus::kFlushed);
  }
  EXPECT_EQ(fault(key(9)), Fault::kNone);
}

/// The other checks come first: the key lives when one of them fails.
TEST_F(RemoteInvalidation, RefusedForAnotherReason_ExpectTheKeyToLive) {
  bring_up();
  bind(9);
  receive_send(Operation::kSendOnlyInvalidate, kPsn, pattern(50), key(9));  // nothing to receive it
  EXPECT_EQ(fault(key(9)), Fault::kNone);
  EXPECT_EQ(pump()[0].aeth().kind, AethKind::kRnrNak);
  post_receive(10);
  receive_send(Operation::kSendOnlyInvalidate, kPsn, pattern(50), key(9));  // too long
  EXPECT_EQ(fault(key(9)), Fault::kNone);
  EXPECT_EQ(queue_pair->state(), State::kErr);
}

/// A WRITE in the same burst is placed under the key, though its last bytes are still on their way; one
/// behind the SEND is not.
TEST_F(RemoteInvalidation, WritesOfTheSameBurst_ExpectThoseBeforeItOnly) {
  bring_up();
  bind(9);
  post_receive(100);
  commit_after_receive = false;
  const auto write = [&](uint32_t psn, uint64_t offset) {
    wire::Headers headers = from_peer(Operation::kWriteOnly, psn);
    headers.reth = {kFastIova + offset, key(9), 200};
    receive(headers, pattern(200, 6));
  };
  write(kPsn, 0);
  receive_send(Operation::kSendOnlyInvalidate, kPsn + 1, {}, key(9));
  write(kPsn + 2, 1000);
  const std::vector<Sent> answers = pump();
  EXPECT_EQ(Bytes(page(0), page(0) + 200), pattern(200, 6));
  EXPECT_EQ(Bytes(page(0) + 1000, page(0) + 1200), Bytes(200));
  expect_received(key(9), 0);
  expect_nak(answers, NakCode::kRemoteAccess, kPsn + 2);
}

/// In the middle of a WRITE the rest of it is refused.
TEST_F(RemoteInvalidation, InTheMiddleOfAnothersWrite_ExpectTheRestRefused) {
  bring_up();
  bind(9);
  wire::Headers headers = from_peer(Operation::kWriteFirst, kPsn);
  headers.reth = {kFastIova, key(9), 3 * kMtu};
  receive(headers, pattern(kMtu, 1));
  mem::Invalidation by_another;
  ASSERT_EQ(by_another.begin(regions, key(9), {.domain = domain}), mem::Invalidation::Answer::kOver);
  receive(Operation::kWriteMiddle, kPsn + 1, pattern(kMtu, 2));
  expect_nak(pump(), NakCode::kRemoteAccess, kPsn + 1);
  EXPECT_EQ(Bytes(page(0) + kMtu, page(0) + 2 * kMtu), Bytes(kMtu));
}

/// Nothing is complete, nothing acknowledged and nothing more taken before the other poller's turn has ended.
TEST_F(RemoteInvalidation, DuringAnothersTurn_ExpectEverythingToWaitForItsEnd) {
  bring_up();
  bind(9);
  post_receive(100);
  post_receive(100);
  other_poller.begin_turn();
  receive_send(Operation::kSendOnlyInvalidate, kPsn, pattern(10), key(9));
  EXPECT_TRUE(last_taken);
  EXPECT_EQ(fault(key(9)), Fault::kState);
  EXPECT_TRUE(queue_pair->stalled());
  receive(Operation::kSendOnly, kPsn + 1, pattern(20), true);
  EXPECT_FALSE(last_taken);
  EXPECT_TRUE(pump_once(8));
  EXPECT_TRUE(take_sent().empty());
  EXPECT_TRUE(receive_completions().empty());
  EXPECT_EQ(unmap(), EBUSY);
  other_poller.end_turn();
  expect_ack(kPsn);
  expect_received(key(9), 10);
  EXPECT_EQ(unmap(), 0);
  receive(Operation::kSendOnly, kPsn + 1, pattern(20), true);
  EXPECT_TRUE(last_taken);
  EXPECT_EQ(receive_completions().size(), 1u);
  expect_ack(kPsn + 1);
}

TEST_F(RemoteInvalidation, AnotherHasTheRegion_ExpectThePacketOnceMore) {
  bring_up();
  bind(9);
  post_receive(100);
  region->lock();
  const Bytes before = memory;
  receive_send(Operation::kSendOnlyInvalidate, kPsn, pattern(10, 9), key(9));
  EXPECT_FALSE(last_taken);
  EXPECT_EQ(memory, before);
  region->unlock();
  EXPECT_FALSE(pump_once(8));
  receive_send(Operation::kSendOnlyInvalidate, kPsn, pattern(10, 9), key(9));
  EXPECT_TRUE(last_taken);
  expect_received(key(9), 10);
}

/// Taken to the error state meanwhile: its receive is flushed, and the region is free in the end.
TEST_F(RemoteInvalidation, ErrorWhileStalled_ExpectTheReceiveFlushed) {
  bring_up();
  bind(9);
  post_receive(100);
  other_poller.begin_turn();
  receive_send(Operation::kSendOnlyInvalidate, kPsn, pattern(10), key(9));
  ASSERT_EQ(modify(State::kErr), 0);
  const auto done = receive_completions();
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].status, CompletionStatus::kFlushed);
  other_poller.end_turn();
  EXPECT_FALSE(pump_once(8));
  EXPECT_TRUE(receive_completions().empty());
  EXPECT_EQ(unmap(), 0);
}

}  // namespace
}  // namespace uroce::qp::testing
