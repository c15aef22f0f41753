// READ with invalidate: our region dies when all data has come, and later answers wait until it has.
#include "tests/unit/qp/fast_registration.h"

namespace uroce::qp::testing {
namespace {

using mem::Fault;
using queue::CompletionOpcode;
using queue::CompletionStatus;
using queue::SendOperation;
using wire::Operation;

constexpr CompletionStatus kSuccess = CompletionStatus::kSuccess;

class ReadInvalidate : public FastRegistrationTest {
 protected:
  /// Into the region itself.
  queue::SendRequest& post_read(uint32_t length, uint8_t low) {
    queue::SendRequest& request = post(SendOperation::kReadInvalidate, length);
    request.invalidate = key(low);
    sends.segments(request)[0] = {kFastIova, length, key(low)};
    return request;
  }
  void receive_response(Operation operation, uint32_t index, const Bytes& payload) {
    receive(from_peer(operation, kOurPsn.value() + index), payload);
  }
};

TEST_F(ReadInvalidate, AllOfIt_ExpectTheDataAndThenTheKeyDead) {
  bring_up();
  bind(1);
  post_read(2 * kMtu, 1);
  post(SendOperation::kSend, 1);
  ASSERT_EQ(pump().size(), 2u);
  receive_response(Operation::kReadResponseFirst, 0, pattern(kMtu, 1));
  EXPECT_EQ(fault(key(1)), Fault::kNone);
  receive_response(Operation::kReadResponseLast, 1, pattern(kMtu, 2));
  EXPECT_EQ(fault(key(1)), Fault::kState);
  expect_completions({{CompletionOpcode::kRead, kSuccess}});
  EXPECT_EQ(Bytes(page(0), page(0) + kMtu), pattern(kMtu, 1));
  EXPECT_EQ(Bytes(page(0) + kMtu, page(0) + 2 * kMtu), pattern(kMtu, 2));
  EXPECT_EQ(unmap(), 0);
}

TEST_F(ReadInvalidate, DuringAnothersTurn_ExpectLaterAnswersToWait) {
  bring_up();
  bind(1);
  post_read(10, 1);
  post(SendOperation::kSend, 1);
  pump();
  other_poller.begin_turn();
  receive_response(Operation::kReadResponseOnly, 0, pattern(10, 1));
  EXPECT_TRUE(queue_pair->stalled());
  EXPECT_TRUE(send_completions().empty());
  EXPECT_TRUE(last_taken);
  receive_ack(kOurPsn.value() + 1);
  EXPECT_FALSE(last_taken);
  other_poller.end_turn();
  pump_once(8);
  expect_completions({{CompletionOpcode::kRead, kSuccess}});
  receive_ack(kOurPsn.value() + 1);
  EXPECT_TRUE(last_taken);
  expect_completions({{CompletionOpcode::kSend, kSuccess}});
}

TEST_F(ReadInvalidate, AnotherHasTheRegion_ExpectThePacketOnceMore) {
  bring_up();
  bind(1);
  post_read(10, 1);
  pump();
  region->lock();
  receive_response(Operation::kReadResponseOnly, 0, pattern(10, 1));
  EXPECT_FALSE(last_taken);
  region->unlock();
  pump_once(8);
  EXPECT_TRUE(send_completions().empty());
  receive_response(Operation::kReadResponseOnly, 0, pattern(10, 1));
  EXPECT_TRUE(last_taken);
  expect_completions({{CompletionOpcode::kRead, kSuccess}});
}

/// The ACK timer does not run against a peer whose answers wait here.
TEST_F(ReadInvalidate, TimerWhileStalled_ExpectNothingSentAgain) {
  bring_up();
  bind(1);
  post_read(10, 1);
  post(SendOperation::kSend, 1);
  pump();
  other_poller.begin_turn();
  receive_response(Operation::kReadResponseOnly, 0, pattern(10, 1));
  for (int i = 0; i < 10; ++i) {
    expire();
    pump_once(8);
  }
  EXPECT_EQ(counter(Counter::kAckTimeout), 0u);
  EXPECT_EQ(queue_pair->state(), State::kRts);
  other_poller.end_turn();
  pump_once(8);
  expect_completions({{CompletionOpcode::kRead, kSuccess}});
}

TEST_F(ReadInvalidate, OfWhatCannotBe_ExpectNothingSent) {
  bring_up();
  post(SendOperation::kReadInvalidate, 10).invalidate = key(1);
  EXPECT_TRUE(pump().empty());
  expect_completions({{CompletionOpcode::kRead, CompletionStatus::kWindowBindError}});
}

TEST_F(ReadInvalidate, InvalidatedByThePeerMeanwhile_ExpectTheData) {
  bring_up();
  bind(1);
  queue::SendRequest& request = post(SendOperation::kReadInvalidate, 10);
  request.invalidate = key(1);
  pump();
  mem::Invalidation invalidation;
  ASSERT_EQ(invalidation.begin(regions, key(1), {.domain = domain}), mem::Invalidation::Answer::kOver);
  receive_response(Operation::kReadResponseOnly, 0, pattern(10, 1));
  expect_completions({{CompletionOpcode::kRead, kSuccess}});
}

}  // namespace
}  // namespace uroce::qp::testing
