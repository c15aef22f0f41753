#include <functional>

#include "tests/unit/qp/fixture.h"

namespace uroce::qp::testing {
namespace {

using queue::CompletionStatus;
using wire::NakCode;
using wire::Operation;

class ResponderErrors : public QueuePairTest {
 protected:
  /// The packet at `psn` was refused: that NAK, the error state, and every byte as before.
  void expect_refused(NakCode code, uint32_t psn = 5000) {
    EXPECT_EQ(queue_pair->state(), State::kErr);
    expect_nak(pump(), code, psn);
    EXPECT_TRUE(pump().empty());
    EXPECT_EQ(memory, memory_before);
    receive_write(Operation::kWriteOnly, psn, 0, 1, pattern(1, 99));
    EXPECT_EQ(memory, memory_before);
    EXPECT_EQ(counter(Counter::kDropQpState), 1u);
  }
  Bytes memory_before = memory;
};

TEST_F(ResponderErrors, PacketsOutOfOrderWithinAMessage) {
  const std::vector<std::vector<Operation>> wrong = {
      {Operation::kSendMiddle},
      {Operation::kSendLast},
      {Operation::kWriteMiddle},
      {Operation::kWriteLast},
      {Operation::kSendFirst, Operation::kSendFirst},
      {Operation::kSendFirst, Operation::kSendOnly},
      {Operation::kSendFirst, Operation::kWriteMiddle},
      {Operation::kSendFirst, Operation::kWriteLast},
      {Operation::kSendFirst, Operation::kWriteOnly},
      {Operation::kSendFirst, Operation::kReadRequest},
      {Operation::kWriteFirst, Operation::kSendLast},
      {Operation::kWriteFirst, Operation::kWriteFirst},
      {Operation::kWriteFirst, Operation::kReadRequest},
  };
  for (const auto& operations : wrong) {
    ASSERT_EQ(modify(State::kReset), 0);
    send_completions();
    receive_completions();
    bring_up(State::kRtr);
    post_receive(5000);
    uint32_t psn = 5000;
    for (const Operation operation : operations) {
      EXPECT_EQ(queue_pair->state(), State::kRtr);
      wire::Headers headers = from_peer(operation, psn++);
      headers.reth = {kIova, keys.rkey, 5 * kMtu};
      receive(headers, operation == Operation::kReadRequest ? Bytes{} : pattern(kMtu));
    }
    EXPECT_EQ(queue_pair->state(), State::kErr);
    expect_nak(pump(), NakCode::kInvalidRequest, psn - 1);
  }
}

TEST_F(ResponderErrors, PayloadsThatDoNotFitThePathMtu) {
  const std::vector<std::pair<Operation, size_t>> wrong = {
      {Operation::kSendFirst, kMtu - 1},  {Operation::kSendFirst, kMtu + 1}, {Operation::kSendOnly, kMtu + 1},
      {Operation::kWriteFirst, kMtu - 1}, {Operation::kWriteOnly, kMtu + 1}, {Operation::kWriteFirst, 0},
  };
  for (const auto& [operation, bytes] : wrong) {
    ASSERT_EQ(modify(State::kReset), 0);
    bring_up(State::kRtr);
    post_receive(5000);
    receive_write(operation, 5000, 0, 5 * kMtu, pattern(bytes, 3));
    EXPECT_EQ(queue_pair->state(), State::kErr);
    expect_nak(pump(), NakCode::kInvalidRequest, 5000);
    EXPECT_EQ(memory, memory_before);
  }
}

TEST_F(ResponderErrors, AnUnannouncedPayload) {
  bring_up(State::kRtr);
  receive_write(Operation::kWriteOnly, 5000, 0, 0, pattern(1, 1));
  expect_refused(NakCode::kInvalidRequest);
}

TEST_F(ResponderErrors, AWriteBeyondTheLongestMessage) {
  bring_up(State::kRtr);
  receive_write(Operation::kWriteFirst, 5000, 0, kMessageBytesMax + 1, pattern(kMtu, 1));
  expect_refused(NakCode::kInvalidRequest);
}

/// What the receiver hears of a WRITE with immediate that may not write: the receive that it was to complete
/// ends with a local access error, the others are flushed.
TEST_F(ResponderErrors, AWriteWithImmediateThatMayNotWrite) {
  struct Case {
    const char* what;
    std::function<void(wire::Headers&)> spoil;
  };
  const std::vector<Case> cases = {
      {"no such key", [](wire::Headers& headers) { headers.reth.rkey = {0xBAD00}; }},
      {"beyond its region", [](wire::Headers& headers) { headers.reth.address += kMemory - 9; }},
      {"not writable", [this](wire::Headers& headers) { headers.reth.rkey = read_only_keys.rkey; }},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.what);
    ASSERT_EQ(modify(State::kReset), 0);
    bring_up(State::kRtr);
    post_receive(10, 1000);
    post_receive(10, 1000);
    wire::Headers headers = from_peer(Operation::kWriteOnlyImm, 5000);
    headers.reth = {kIova, keys.rkey, 10};
    one.spoil(headers);
    receive(headers, pattern(10, 1));
    EXPECT_EQ(queue_pair->state(), State::kErr);
    expect_nak(pump(), NakCode::kRemoteAccess, 5000);
    const auto done = receive_completions();
    ASSERT_EQ(done.size(), 2u);
    EXPECT_EQ(done[0].status, CompletionStatus::kLocalAccessError);
    EXPECT_EQ(done[1].status, CompletionStatus::kFlushed);
    EXPECT_EQ(memory, memory_before);
  }
}

TEST_F(ResponderErrors, AWriteWithImmediateWhoseRegionEndsBeforeItsLastPacket) {
  bring_up(State::kRtr);
  post_receive(10, 1000);
  wire::Headers headers = from_peer(Operation::kWriteFirst, 5000);
  headers.reth = {kIova, keys.rkey, kMtu + 1};
  receive(headers, pattern(kMtu));
  ASSERT_TRUE(regions.deregister(keys.lkey).ok());
  receive(from_peer(Operation::kWriteLastImm, 5001), pattern(1));
  expect_nak(pump(), NakCode::kRemoteAccess, 5001);
  const auto done = receive_completions();
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].status, CompletionStatus::kLocalAccessError);
}

/// Its receive has nothing to do with what comes before the packet that says "with immediate".
TEST_F(ResponderErrors, TheFirstPacketOfALongWriteWithImmediateThatMayNotWrite) {
  bring_up(State::kRtr);
  post_receive(10, 1000);
  wire::Headers headers = from_peer(Operation::kWriteFirst, 5000);
  headers.reth = {kIova, {0xBAD00}, kMtu + 1};
  receive(headers, pattern(kMtu));
  expect_nak(pump(), NakCode::kRemoteAccess, 5000);
  const auto done = receive_completions();
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].status, CompletionStatus::kFlushed);
}

TEST_F(ResponderErrors, ReadsAreCountedInPowersOfTwo) {
  attributes.max_dest_rd_atomic = 3;
  bring_up(State::kRtr);
  for (uint32_t i = 0; i < 4; ++i) receive_read(5000 + i, 0, 1);
  EXPECT_EQ(queue_pair->state(), State::kRtr);
  receive_read(5004, 0, 1);
  EXPECT_EQ(queue_pair->state(), State::kErr);
}

TEST_F(ResponderErrors, AnInvalidationInTheMiddleStopsTheRestOfARead) {
  bring_up(State::kRtr);
  receive_read(5000, 0, 10 * kMtu);
  EXPECT_TRUE(pump_once(4));
  EXPECT_EQ(take_sent().size(), 4u);
  ASSERT_TRUE(regions.deregister(keys.lkey));
  expect_nak(pump(), NakCode::kRemoteAccess, 5004);
  EXPECT_EQ(queue_pair->state(), State::kErr);
}

TEST_F(ResponderErrors, AnInvalidationInTheMiddleStopsAReadAlsoWhenItIsAskedForAgain) {
  bring_up(State::kRtr);
  receive_read(5000, 0, 10 * kMtu);
  EXPECT_TRUE(pump_once(4));
  EXPECT_EQ(take_sent().size(), 4u);
  receive_read(5000, 0, 10 * kMtu);
  ASSERT_TRUE(regions.deregister(keys.lkey));
  expect_nak(pump(), NakCode::kRemoteAccess, 5000);
  EXPECT_EQ(queue_pair->state(), State::kErr);
}

TEST_F(ResponderErrors, AnInvalidationInTheMiddleStopsTheRestOfASend) {
  bring_up(State::kRtr);
  post_receive(1000);
  receive(Operation::kSendFirst, 5000, pattern(kMtu, 1));
  memory_before = memory;
  ASSERT_TRUE(regions.deregister(keys.lkey));
  receive(Operation::kSendLast, 5001, pattern(kMtu, 2));
  expect_failed_receive(CompletionStatus::kLocalProtectionError);
  expect_refused(NakCode::kRemoteOperational, 5001);
}

}  // namespace
}  // namespace uroce::qp::testing
