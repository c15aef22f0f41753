// Work requests that send nothing: their place among the others, and what becomes of them when things go
// wrong.
#include "qp/requester/local_operation.h"

#include <cerrno>
#include <functional>

#include "tests/unit/qp/fast_registration.h"

namespace uroce::qp::testing {
namespace {

using mem::Fault;
using queue::CompletionOpcode;
using queue::CompletionStatus;
using queue::SendOperation;
using wire::NakCode;
using wire::Operation;

constexpr CompletionStatus kSuccess = CompletionStatus::kSuccess;
constexpr CompletionStatus kFlushed = CompletionStatus::kFlushed;
constexpr CompletionStatus kRefused = CompletionStatus::kWindowBindError;

using LocalOperation = FastRegistrationTest;

TEST_F(LocalOperation, RegisterAndInvalidateOnAnIdleQueue_ExpectBothDoneInOneTurn) {
  bring_up();
  post_register(0x11);
  pump_once(8);
  EXPECT_EQ(fault(key(0x11)), Fault::kNone);
  EXPECT_FALSE(list.posted());
  EXPECT_EQ(unmap(), EBUSY);
  post_invalidate(key(0x11));
  EXPECT_FALSE(pump_once(8));
  EXPECT_EQ(fault(key(0x11)), Fault::kState);
  EXPECT_EQ(unmap(), 0);
  expect_completions(
      {{CompletionOpcode::kRegister, kSuccess}, {CompletionOpcode::kLocalInvalidate, kSuccess}});
  EXPECT_TRUE(take_sent().empty());
}

TEST_F(LocalOperation, Unsignaled_ExpectNoCompletionAndRoomInTheQueue) {
  bring_up();
  for (uint32_t i = 0; i < 3 * kDepth; ++i) {
    post_register(static_cast<uint8_t>(i)).signaled = false;
    post_invalidate(key(static_cast<uint8_t>(i))).signaled = false;
    pump_once(8);
  }
  EXPECT_TRUE(send_completions().empty());
  EXPECT_EQ(sends.outstanding(), 0u);
}

/// Registered before what is behind it leaves, complete when what is before it is.
TEST_F(LocalOperation, RegisterBetweenMessages_ExpectItAtOnceAndItsCompletionInOrder) {
  bring_up();
  post(SendOperation::kWrite, 10);
  post_register(1);
  post(SendOperation::kSend, 10);
  const std::vector<Sent> sent = pump();
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(sent[1].psn(), kOurPsn.value() + 1);  // it takes no PSN
  EXPECT_EQ(fault(key(1)), Fault::kNone);
  EXPECT_TRUE(send_completions().empty());
  receive_ack(kOurPsn.value());
  expect_completions({{CompletionOpcode::kWrite, kSuccess}, {CompletionOpcode::kRegister, kSuccess}});
  receive_ack(kOurPsn.value() + 1);
  expect_completions({{CompletionOpcode::kSend, kSuccess}});
}

/// Which waits for what is before it, and so the message before the registration goes once more and asks.
TEST_F(LocalOperation, RegisterBetweenAnUnsignalledMessageAndOneThatFails_ExpectAllInOrder) {
  attributes.timeout = 0;
  bring_up();
  post(SendOperation::kWrite, 10).signaled = false;
  post_register(1);
  sends.segments(post(SendOperation::kSend, 10))[0].lkey = {0xDEAD00};
  const std::vector<Sent> sent = pump();
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(sent[1].psn(), sent[0].psn());
  EXPECT_EQ(sent[1].operation(), Operation::kWriteOnly);
  EXPECT_TRUE(sent[1].ack_request());
  receive_ack(kOurPsn.value());
  pump();
  expect_completions({{CompletionOpcode::kRegister, kSuccess},
                      {CompletionOpcode::kSend, CompletionStatus::kLocalProtectionError}});
}

TEST_F(LocalOperation, RegisterWithAFence_ExpectItToWaitForTheReadBefore) {
  bring_up();
  post(SendOperation::kRead, 10);
  post_register(1).fence = true;
  EXPECT_EQ(pump().size(), 1u);
  EXPECT_EQ(fault(key(1)), Fault::kKey);
  wire::Headers headers = from_peer(Operation::kReadResponseOnly, kOurPsn.value());
  receive(headers, pattern(10));
  pump();
  EXPECT_EQ(fault(key(1)), Fault::kNone);
  expect_completions({{CompletionOpcode::kRead, kSuccess}, {CompletionOpcode::kRegister, kSuccess}});
}

/// All before it must be complete, and nothing behind it may have begun.
TEST_F(LocalOperation, InvalidateBetweenMessages_ExpectItAlone) {
  bring_up();
  bind(1);
  post(SendOperation::kWrite, 10);
  post_invalidate(key(1));
  post(SendOperation::kSend, 10);
  EXPECT_EQ(pump().size(), 1u);
  EXPECT_EQ(fault(key(1)), Fault::kNone);
  receive_ack(kOurPsn.value());
  EXPECT_EQ(fault(key(1)), Fault::kNone);
  EXPECT_EQ(pump().size(), 1u);
  EXPECT_EQ(fault(key(1)), Fault::kState);
  expect_completions({{CompletionOpcode::kWrite, kSuccess}, {CompletionOpcode::kLocalInvalidate, kSuccess}});
}

TEST_F(LocalOperation, RegisterInvalidateRegister_ExpectTheLastKey) {
  bring_up();
  mem::PageList second(bus, kPages);
  for (uint32_t i = 0; i < kPages; ++i) second.addresses()[i] = buses[i];
  post_register(1);
  post_invalidate(key(1));
  ASSERT_EQ(second.post({1, 12, 0, 100}, kAll), 0);
  queue::SendRequest& request = *sends.reserve();
  request.operation = SendOperation::kRegister;
  sends.set_operation(request, RegisterOperation{region->first_key(), key(2), kAll, kFastIova, &second});
  sends.publish();
  pump();
  EXPECT_EQ(fault(key(1)), Fault::kKey);
  EXPECT_EQ(fault(key(2), 100), Fault::kNone);
  EXPECT_EQ(fault(key(2), 101), Fault::kBounds);
}

/// A rewind passes what was executed: else the registration would be refused, the region being bound.
TEST_F(LocalOperation, RewindOverARegistration_ExpectItOnlyOnce) {
  bring_up();
  post(SendOperation::kWrite, 10);
  post_register(1);
  post(SendOperation::kWrite, 20);
  post(SendOperation::kWrite, 30);
  EXPECT_EQ(pump().size(), 3u);
  expire();
  std::vector<Sent> again = pump();
  ASSERT_EQ(again.size(), 1u);  // the probe
  receive_nak(NakCode::kSequenceError, kOurPsn.value() + 1);
  again = pump();
  ASSERT_EQ(again.size(), 2u);
  EXPECT_EQ(again[0].psn(), kOurPsn.value() + 1);
  receive_nak(NakCode::kSequenceError, kOurPsn.value() + 1);
  receive_ack(kOurPsn.value() + 2);
  expect_completions({{CompletionOpcode::kWrite, kSuccess},
                      {CompletionOpcode::kRegister, kSuccess},
                      {CompletionOpcode::kWrite, kSuccess},
                      {CompletionOpcode::kWrite, kSuccess}});
  EXPECT_EQ(fault(key(1)), Fault::kNone);
  EXPECT_EQ(queue_pair->state(), State::kRts);
}

/// An ACK comes for what is to be sent again, and behind it stands a registration.
TEST_F(LocalOperation, AnsweredWhileRewound_ExpectTheNextRequestToGoOut) {
  bring_up();
  post(SendOperation::kWrite, 10);
  post_register(1);
  pump();
  expire();
  receive_ack(kOurPsn.value());
  post(SendOperation::kWrite, 20);
  const std::vector<Sent> sent = pump();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].psn(), kOurPsn.value() + 1);
  EXPECT_EQ(send_completions().size(), 2u);
}

TEST_F(LocalOperation, AnotherHasTheRegion_ExpectAnotherTry) {
  bring_up();
  region->lock();
  post_register(1);
  EXPECT_TRUE(pump_once(8));
  EXPECT_TRUE(send_completions().empty());
  region->unlock();
  EXPECT_FALSE(pump_once(8));
  expect_completions({{CompletionOpcode::kRegister, kSuccess}});
  region->lock();
  post_invalidate(key(1));
  EXPECT_TRUE(pump_once(8));
  EXPECT_TRUE(queue_pair->stalled());
  region->unlock();
  EXPECT_FALSE(pump_once(8));
  expect_completions({{CompletionOpcode::kLocalInvalidate, kSuccess}});
}

/// The other poller may be at the memory: nothing completes, and nothing behind begins, before it is not.
TEST_F(LocalOperation, InvalidateDuringAnothersTurn_ExpectItToStallUntilItsEnd) {
  bring_up();
  bind(1);
  other_poller.begin_turn();
  post_invalidate(key(1));
  post(SendOperation::kSend, 10);
  EXPECT_TRUE(pump_once(8));
  EXPECT_TRUE(pump_once(8));
  EXPECT_TRUE(queue_pair->stalled());
  EXPECT_EQ(fault(key(1)), Fault::kState);
  EXPECT_EQ(unmap(), EBUSY);
  EXPECT_TRUE(send_completions().empty());
  EXPECT_TRUE(take_sent().empty());
  other_poller.end_turn();
  EXPECT_FALSE(pump_once(8));
  EXPECT_EQ(unmap(), 0);
  expect_completions({{CompletionOpcode::kLocalInvalidate, kSuccess}});
  EXPECT_EQ(take_sent().size(), 1u);
}

TEST_F(LocalOperation, WhatIsRefused_ExpectTheStatusAndTheRestFlushed) {
  const std::vector<std::function<void()>> wrong = {
      [&] { post_invalidate(key(1)); },                 // another key of the index
      [&] { post_invalidate(keys.lkey); },              // a user region
      [&] { post_invalidate(MemoryKey{0xFFFFFF00}); },  // nothing
      [&] {
        bind(3);
        post_register(4);  // bound already
      },
  };
  expect_each_refused(wrong, kRefused);
  EXPECT_FALSE(list.posted());
  EXPECT_EQ(fault(key(3)), Fault::kNone);
}

/// As often as anybody likes; the key stays as free as it is.
TEST_F(LocalOperation, InvalidateWhatIsFree_ExpectSuccessAndNoNotice) {
  bring_up();
  bind(1);
  post_invalidate(key(1));
  post_invalidate(key(1));
  post(SendOperation::kSend, 10);
  EXPECT_EQ(pump().size(), 1u);
  expect_completions(
      {{CompletionOpcode::kLocalInvalidate, kSuccess}, {CompletionOpcode::kLocalInvalidate, kSuccess}});
  EXPECT_EQ(fault(key(1)), Fault::kState);
  EXPECT_EQ(queue_pair->state(), State::kRts);
}

/// In its turn: what is before it completes first.
TEST_F(LocalOperation, RefusedBehindAMessage_ExpectTheMessageComplete) {
  bring_up();
  post(SendOperation::kWrite, 10);
  bind(3);
  post_register(4);
  EXPECT_EQ(pump().size(), 1u);
  EXPECT_TRUE(send_completions().empty());
  receive_ack(kOurPsn.value());
  pump();
  expect_completions({{CompletionOpcode::kWrite, kSuccess}, {CompletionOpcode::kRegister, kRefused}});
}

TEST_F(LocalOperation, FlushReset_ExpectTheListBackAndNothingPinned) {
  bring_up();
  other_poller.begin_turn();
  bind(1);
  post_invalidate(key(1));
  pump_once(8);
  post_register(2);
  EXPECT_TRUE(pump_once(8));
  ASSERT_EQ(modify(State::kErr), 0);
  expect_completions(
      {{CompletionOpcode::kLocalInvalidate, kFlushed}, {CompletionOpcode::kRegister, kFlushed}});
  EXPECT_FALSE(list.posted());
  EXPECT_EQ(unmap(), EBUSY);  // still, for the other poller
  EXPECT_TRUE(queue_pair->stalled());
  ASSERT_EQ(modify(State::kReset), 0);
  EXPECT_TRUE(pump_once(8));
  other_poller.end_turn();
  EXPECT_FALSE(pump_once(8));
  EXPECT_FALSE(queue_pair->stalled());

  bring_up();
  post(SendOperation::kWrite, 10);
  post_invalidate(key(1));
  post_register(3);
  pump();
  ASSERT_EQ(modify(State::kReset), 0);
  EXPECT_FALSE(list.posted());
  EXPECT_EQ(unmap(), 0);
  EXPECT_TRUE(send_completions().empty());
}

TEST_F(LocalOperation, AbandonedWhileStalled_ExpectItToEndWithTheGracePeriod) {
  bring_up();
  bind(1);
  other_poller.begin_turn();
  post_invalidate(key(1));
  pump_once(8);
  post_register(2);
  EXPECT_FALSE(queue_pair->abandon(turn));
  EXPECT_FALSE(list.posted());
  other_poller.end_turn();
  EXPECT_TRUE(queue_pair->abandon(turn));
  EXPECT_EQ(unmap(), 0);
}

TEST_F(LocalOperation, InSqd_ExpectNothingNewToBegin) {
  bring_up();
  ASSERT_EQ(modify(State::kSqd), 0);
  post_register(1);
  pump();
  EXPECT_EQ(fault(key(1)), Fault::kKey);
  ASSERT_EQ(modify(State::kRts), 0);
  pump();
  EXPECT_EQ(fault(key(1)), Fault::kNone);
}

}  // namespace
}  // namespace uroce::qp::testing
