// What a queue pair tells those that log it: that it failed, and why.
#include <gtest/gtest.h>

#include <vector>

#include "qp/attributes/notice.h"
#include "tests/unit/qp/fixture.h"

namespace uroce::qp::testing {
namespace {

using queue::SendOperation;
using wire::Operation;

class RecordedNotices final : public NoticeListener {
 public:
  void note(const Notice& notice) override { all.push_back(notice); }
  std::vector<Notice> all;
};

class Notices : public QueuePairTest {
 protected:
  Notices() { turn.notices = &recorded; }

  /// The newest, which is that the queue pair went to the error state.
  void expect_failure(Failure failure) {
    ASSERT_FALSE(recorded.all.empty());
    const Notice& last = recorded.all.back();
    EXPECT_EQ(last.kind, Notice::Kind::kState);
    EXPECT_EQ(last.from, State::kRts);
    EXPECT_EQ(last.to, State::kErr);
    EXPECT_EQ(last.failure, failure) << text_of(last.failure);
    EXPECT_EQ(last.queue_pair, options.number);
    EXPECT_EQ(last.peer, queue_pair->attributes().destination);
    EXPECT_EQ(last.address, queue_pair->attributes().path.destination);
  }

  RecordedNotices recorded;
};

TEST_F(Notices, StatesThatWereOrderedHaveNoFailure) {
  bring_up();
  ASSERT_EQ(recorded.all.size(), 3u);
  for (const Notice& notice : recorded.all) EXPECT_EQ(notice.failure, Failure::kNone);
  EXPECT_EQ(recorded.all.back().to, State::kRts);
  ASSERT_EQ(modify(State::kErr), 0);
  expect_failure(Failure::kNone);
}

TEST_F(Notices, RetriesThatAreUsedUp) {
  attributes.timeout = 10;
  attributes.retry_count = 1;
  bring_up();
  post(SendOperation::kSend, 10);
  pump();
  for (int i = 0; i < 2; ++i) {
    expire();
    pump();
  }
  expect_failure(Failure::kRetryExceeded);
}

TEST_F(Notices, NaksOfThePeer) {
  bring_up();
  post(SendOperation::kWrite, 10);
  pump();
  receive_nak(wire::NakCode::kRemoteAccess, kOurPsn.value());
  expect_failure(Failure::kRemoteAccess);
  EXPECT_EQ(recorded.all.back().key, MemoryKey{}) << "that is a key of the peer's";
}

TEST_F(Notices, ARequestThatIsRefusedNamesTheKey) {
  bring_up();
  wire::Headers write = from_peer(Operation::kWriteOnly, kPeerPsn.value());
  write.reth = {.address = kIova, .rkey = MemoryKey{0xABCD12}, .length = 4};
  receive(write, pattern(4));
  expect_failure(Failure::kAccessRefused);
  EXPECT_EQ(recorded.all.back().key, MemoryKey{0xABCD12});
}

TEST_F(Notices, AWriteBeyondItsRegionNamesTheKey) {
  bring_up();
  receive_write(Operation::kWriteFirst, kPeerPsn.value(), kMemory - kMtu, kMtu + 4, pattern(kMtu));
  expect_failure(Failure::kAccessRefused);
  EXPECT_EQ(recorded.all.back().key, keys.rkey);
}

TEST_F(Notices, AReadThatIsRefusedNamesTheKey) {
  bring_up();
  wire::Headers read = from_peer(Operation::kReadRequest, kPeerPsn.value());
  read.reth = {.address = kIova, .rkey = MemoryKey{0x99}, .length = 4};
  receive(read);
  expect_failure(Failure::kAccessRefused);
  EXPECT_EQ(recorded.all.back().key, MemoryKey{0x99});
}

TEST_F(Notices, AWriteThatTheQueuePairDoesNotPermit) {
  attributes.access = mem::kRemoteRead;
  bring_up();
  receive_write(Operation::kWriteOnly, kPeerPsn.value(), 0, 4, pattern(4));
  expect_failure(Failure::kOperationRefused);
  EXPECT_EQ(recorded.all.back().key, MemoryKey{});
}

TEST_F(Notices, AFullCompletionQueue) {
  bring_up();
  queue_pair->overflow_completions(turn);
  pump();
  expect_failure(Failure::kCompletionQueueFull);
  EXPECT_EQ(recorded.all.back().completion_queue, 3u);
}

TEST_F(Notices, AFailureThatAnOrderOvertakes) {
  bring_up();
  queue_pair->overflow_completions(turn);
  ASSERT_EQ(modify(State::kErr), 0);
  expect_failure(Failure::kCompletionQueueFull);
}

TEST_F(Notices, TheFullCompletionQueueOfReceives) {
  queue::CompletionQueue tiny({.depth = 1, .number = 9});
  options.receive_completions = &tiny;
  queue_pair = std::make_unique<QueuePairStorage>(options);
  bring_up();
  for (int i = 0; i < 3; ++i) post_receive(16);
  for (uint32_t i = 0; i < 3; ++i) receive(from_peer(Operation::kSendOnly, kPeerPsn.value() + i), pattern(4));
  pump();
  expect_failure(Failure::kCompletionQueueFull);
  EXPECT_EQ(recorded.all.back().completion_queue, 9u);
  completions.publish_all();
}

TEST_F(Notices, EveryFailureHasAText) {
  for (size_t i = 1; i < static_cast<size_t>(Failure::kCount); ++i)
    EXPECT_FALSE(text_of(static_cast<Failure>(i)).empty());
}

}  // namespace
}  // namespace uroce::qp::testing
