// Memory windows in the send queue: the place of a bind among the other work requests, and what waits for it.
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "mem/regions/window.h"
#include "qp/requester/local_operation.h"
#include "tests/unit/qp/fixture.h"

namespace uroce::qp::testing {
namespace {

using mem::Fault;
using mem::RegionKind;
using queue::CompletionOpcode;
using queue::CompletionStatus;
using queue::SendOperation;
using wire::NakCode;

constexpr CompletionStatus kSuccess = CompletionStatus::kSuccess;
constexpr CompletionStatus kFlushed = CompletionStatus::kFlushed;
constexpr CompletionStatus kRefused = CompletionStatus::kWindowBindError;
constexpr mem::Access kBoth = mem::kRemoteWrite | mem::kRemoteRead;

/// A window of each type over two regions of the same memory.
class WindowOperation : public QueuePairTest {
 protected:
  static constexpr uint64_t kBytes = 1000;

  WindowOperation() {
    for (mem::RegionKeys& made : parents)
      made = register_region(memory.data(), memory.size(), kIova, mem::kLocalWrite | mem::kWindowBind);
  }
  ~WindowOperation() override {
    type1->end();
    type2->end();
  }

  static MemoryKey key(const mem::Window& window, uint8_t low) {
    return MemoryKey::make(window.first_key().index(), low);
  }
  [[nodiscard]] Fault fault(MemoryKey of) const {
    return regions
        .resolve(of, {.domain = domain, .queue_pair = kOurIdentity}, kIova, kBytes, mem::kRemoteWrite)
        .fault();
  }

  queue::SendRequest& post_bind(const mem::Window& window, uint8_t low, MemoryKey parent) {
    queue::SendRequest& request = reserve_local(SendOperation::kBindWindow);
    sends.set_operation(request, BindOperation{.window = window.first_key(),
                                               .key = key(window, low),
                                               .region = parent,
                                               .access = kBoth,
                                               .address = kIova,
                                               .length = parent == MemoryKey{} ? 0 : kBytes,
                                               .type1 = &window == type1.get()});
    sends.publish();
    return request;
  }
  /// At once.
  void bind(const mem::Window& window, uint8_t low) {
    post_bind(window, low, parents[0].lkey).signaled = false;
    EXPECT_FALSE(pump_once(8));
    ASSERT_EQ(fault(key(window, low)), Fault::kNone);
  }
  /// Another queue pair of the same number takes the place of the one that there was.
  void make_anew(mem::QpIdentity identity) {
    options.identity = identity;
    queue_pair = std::make_unique<QueuePairStorage>(options);
    bring_up();
  }
  mem::RegionObject& object(MemoryKey of) { return *regions.read_entry(of).object; }

  std::array<mem::RegionKeys, 2> parents;
  std::unique_ptr<mem::Window> type1 =
      std::move(mem::Window::make(regions, domain, RegionKind::kWindow1).value());
  std::unique_ptr<mem::Window> type2 =
      std::move(mem::Window::make(regions, domain, RegionKind::kWindow2B).value());
};

TEST_F(WindowOperation, Type2BetweenMessages_ExpectItAtOnceAndItsCompletionInOrder) {
  bring_up();
  post(SendOperation::kWrite, 10);
  post_bind(*type2, 1, parents[0].lkey);
  post(SendOperation::kSend, 10);
  EXPECT_EQ(pump().size(), 2u);
  EXPECT_EQ(fault(key(*type2, 1)), Fault::kNone);
  EXPECT_TRUE(send_completions().empty());
  receive_ack(kOurPsn.value());
  expect_completions({{CompletionOpcode::kWrite, kSuccess}, {CompletionOpcode::kBindWindow, kSuccess}});
}

/// The number comes back with another queue pair; what was bound to the first does not open to it.
TEST_F(WindowOperation, OfAQueuePairThatIsNoMore_ExpectNothingForAnotherOfItsNumber) {
  for (const uint64_t later : {uint64_t{1}, uint64_t{1} << 31, uint64_t{1} << 40}) {
    make_anew(kOurIdentity);
    bind(*type2, 1);
    make_anew({kOurIdentity.value + later});
    const Bytes before = memory;
    wire::Headers headers = from_peer(wire::Operation::kWriteOnly, kPeerPsn.value());
    headers.reth = {kIova, key(*type2, 1), 10};
    receive(headers, pattern(10, 3));
    expect_nak(pump(), NakCode::kRemoteAccess, kPeerPsn.value());
    EXPECT_EQ(memory, before);

    // Nor can it end the binding, which its owner could.
    make_anew({kOurIdentity.value + later});
    post_invalidate(key(*type2, 1));
    pump();
    EXPECT_EQ(send_completions().back().status, kRefused);
    make_anew(kOurIdentity);
    EXPECT_EQ(fault(key(*type2, 1)), Fault::kNone);
    post_invalidate(key(*type2, 1));
    pump();
    EXPECT_EQ(send_completions().back().status, kSuccess);
  }
}

/// It may take a binding away, which what was posted before may still need.
TEST_F(WindowOperation, Type1BetweenMessages_ExpectItAlone) {
  bring_up();
  post(SendOperation::kWrite, 10);
  post_bind(*type1, 1, parents[0].lkey);
  post(SendOperation::kSend, 10);
  EXPECT_EQ(pump().size(), 1u);
  EXPECT_EQ(fault(key(*type1, 1)), Fault::kKey);
  receive_ack(kOurPsn.value());
  EXPECT_EQ(pump().size(), 1u);
  EXPECT_EQ(fault(key(*type1, 1)), Fault::kNone);
  expect_completions({{CompletionOpcode::kWrite, kSuccess}, {CompletionOpcode::kBindWindow, kSuccess}});
}

TEST_F(WindowOperation, WithAFence_ExpectItToWaitForTheReadBefore) {
  bring_up();
  post(SendOperation::kRead, 10);
  post_bind(*type2, 1, parents[0].lkey).fence = true;
  EXPECT_EQ(pump().size(), 1u);
  EXPECT_EQ(fault(key(*type2, 1)), Fault::kKey);
  receive(from_peer(wire::Operation::kReadResponseOnly, kOurPsn.value()), pattern(10));
  pump();
  EXPECT_EQ(fault(key(*type2, 1)), Fault::kNone);
  expect_completions({{CompletionOpcode::kRead, kSuccess}, {CompletionOpcode::kBindWindow, kSuccess}});
}

/// The other poller may be at the memory by the old key: nothing completes, begins or is received before it
/// is not.
TEST_F(WindowOperation, Type1AnewDuringAnothersTurn_ExpectItToStallUntilItsEnd) {
  for (const MemoryKey next : {parents[1].lkey, parents[0].lkey, MemoryKey{}}) {
    SCOPED_TRACE(next.value);
    ASSERT_EQ(modify(State::kReset), 0);
    bring_up();
    bind(*type1, 1);
    other_poller.begin_turn();
    post_bind(*type1, 2, next);
    post(SendOperation::kSend, 10);
    EXPECT_TRUE(pump_once(8));
    EXPECT_TRUE(pump_once(8));
    EXPECT_TRUE(queue_pair->stalled());
    EXPECT_EQ(fault(key(*type1, 1)), Fault::kKey) << "dead at once";
    EXPECT_EQ(fault(key(*type1, 2)), next == MemoryKey{} ? Fault::kState : Fault::kNone);
    EXPECT_TRUE(send_completions().empty());
    EXPECT_TRUE(take_sent().empty());
    receive(wire::Operation::kSendOnly, kPeerPsn.value(), pattern(10));
    EXPECT_FALSE(last_taken);
    other_poller.end_turn();
    EXPECT_FALSE(pump_once(8));
    expect_completions({{CompletionOpcode::kBindWindow, kSuccess}});
    EXPECT_EQ(take_sent().size(), 1u);
    post_bind(*type1, 3, {}).signaled = false;
    receive_ack(kOurPsn.value());
    EXPECT_FALSE(pump_once(8));
    static_cast<void>(send_completions());
  }
}

TEST_F(WindowOperation, Type1FreeDuringAnothersTurn_ExpectNoStall) {
  bring_up();
  other_poller.begin_turn();
  post_bind(*type1, 1, parents[0].lkey);
  post_bind(*type2, 1, parents[0].lkey);
  EXPECT_FALSE(pump_once(8));
  expect_completions({{CompletionOpcode::kBindWindow, kSuccess}, {CompletionOpcode::kBindWindow, kSuccess}});
}

TEST_F(WindowOperation, InvalidationOfType2DuringAnothersTurn_ExpectItToStallUntilItsEnd) {
  bring_up();
  bind(*type2, 1);
  other_poller.begin_turn();
  post_invalidate(key(*type2, 1));
  post_bind(*type2, 2, parents[1].lkey);
  EXPECT_TRUE(pump_once(8));
  EXPECT_EQ(fault(key(*type2, 1)), Fault::kState);
  EXPECT_TRUE(send_completions().empty());
  other_poller.end_turn();
  EXPECT_FALSE(pump_once(8));
  EXPECT_EQ(fault(key(*type2, 2)), Fault::kNone);
  expect_completions(
      {{CompletionOpcode::kLocalInvalidate, kSuccess}, {CompletionOpcode::kBindWindow, kSuccess}});
}

/// Of the window, of the region that it comes to, and of the one that it leaves.
TEST_F(WindowOperation, AnotherHasOneOfThem_ExpectAnotherTry) {
  bring_up();
  bind(*type1, 1);
  uint8_t low = 1;
  for (mem::RegionObject* held :
       {static_cast<mem::RegionObject*>(type1.get()), &object(parents[0].lkey), &object(parents[1].lkey)}) {
    held->lock();
    ++low;
    post_bind(*type1, low, parents[low % 2 == 0 ? 1 : 0].lkey);
    post(SendOperation::kWrite, 10);
    EXPECT_TRUE(pump_once(8));
    EXPECT_TRUE(pump_once(8));
    EXPECT_TRUE(queue_pair->stalled());
    EXPECT_EQ(fault(key(*type1, static_cast<uint8_t>(low - 1))), Fault::kNone) << "as it was";
    EXPECT_TRUE(take_sent().empty());
    held->unlock();
    EXPECT_FALSE(pump_once(8));
    EXPECT_FALSE(queue_pair->stalled());
    EXPECT_EQ(fault(key(*type1, low)), Fault::kNone);
    const std::vector<Sent> sent = take_sent();
    ASSERT_EQ(sent.size(), 1u);
    receive_ack(sent[0].psn());
    expect_completions({{CompletionOpcode::kBindWindow, kSuccess}, {CompletionOpcode::kWrite, kSuccess}});
  }
}

/// A rewind passes what was executed: else it would be refused, the window being bound.
TEST_F(WindowOperation, RewindOverABind_ExpectItOnlyOnce) {
  bring_up();
  post(SendOperation::kWrite, 10);
  post_bind(*type2, 1, parents[0].lkey);
  post(SendOperation::kWrite, 20);
  EXPECT_EQ(pump().size(), 2u);
  expire();
  EXPECT_EQ(pump().size(), 1u);
  receive_nak(NakCode::kSequenceError, kOurPsn.value() + 1);
  EXPECT_EQ(pump().size(), 1u);
  receive_ack(kOurPsn.value() + 1);
  expect_completions({{CompletionOpcode::kWrite, kSuccess},
                      {CompletionOpcode::kBindWindow, kSuccess},
                      {CompletionOpcode::kWrite, kSuccess}});
  EXPECT_EQ(queue_pair->state(), State::kRts);
}

TEST_F(WindowOperation, WhatIsRefused_ExpectTheStatusAndTheRestFlushed) {
  const std::vector<std::function<void()>> wrong = {
      [&] { post_bind(*type2, 2, keys.lkey); },  // a region that may have no windows
      [&] { post_bind(*type1, 2, keys.lkey); },
      [&] { post_bind(*type2, 2, MemoryKey{0xFFFFFF00}); },  // nothing
      [&] { post_invalidate(key(*type1, 1)); },              // of type 1
      [&] {
        bind(*type2, 3);
        post_bind(*type2, 4, parents[0].lkey);  // bound already
      },
  };
  expect_each_refused(wrong, kRefused);
  EXPECT_EQ(fault(key(*type2, 3)), Fault::kNone);
}

/// A flushed bind may have been executed.
TEST_F(WindowOperation, FlushedAndAbandonedWhileStalled_ExpectTheEndWithTheGracePeriod) {
  bring_up();
  bind(*type1, 1);
  other_poller.begin_turn();
  post_bind(*type1, 2, parents[1].lkey);
  post_bind(*type2, 2, parents[1].lkey);
  EXPECT_TRUE(pump_once(8));
  ASSERT_EQ(modify(State::kErr), 0);
  expect_completions({{CompletionOpcode::kBindWindow, kFlushed}, {CompletionOpcode::kBindWindow, kFlushed}});
  EXPECT_EQ(fault(key(*type1, 2)), Fault::kNone);
  EXPECT_EQ(fault(key(*type2, 2)), Fault::kKey);
  EXPECT_TRUE(queue_pair->stalled());
  EXPECT_FALSE(queue_pair->abandon(turn));
  other_poller.end_turn();
  EXPECT_TRUE(queue_pair->abandon(turn));
}

}  // namespace
}  // namespace uroce::qp::testing
