// COMPARE & SWAP and FETCH & ADD: requester and completer.
#include "tests/unit/copy/fault_catcher.h"
#include "tests/unit/copy/vanishing_memory.h"
#include "tests/unit/qp/atomic_fixture.h"

namespace uroce::qp::testing {
namespace {

using queue::CompletionOpcode;
using queue::CompletionStatus;
using queue::SendOperation;
using uroce::testing::FaultCatcher;
using uroce::testing::VanishingMemory;
using wire::Operation;

class AtomicRequester : public Atomic {};

TEST_F(AtomicRequester, TheOriginalValueIsScatteredInHostOrder) {
  bring_up();
  queue::SendRequest& request = post_atomic(SendOperation::kCompareSwap, 1);
  request.segments = 3;
  sends.segments(request)[0] = segment(1000, 3);
  sends.segments(request)[1] = segment(0, 0);
  sends.segments(request)[2] = segment(2000, 5);
  sends.operands(request) = {1, 0};
  pump();
  const uint64_t value = 0x0102030405060708;
  receive_original(100, value);
  const auto done = send_completions();
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].opcode, CompletionOpcode::kCompareSwap);
  EXPECT_EQ(done[0].status, CompletionStatus::kSuccess);
  EXPECT_EQ(done[0].bytes, 8u);
  Bytes stored = memory_at(1000, 3);
  for (const std::byte byte : memory_at(2000, 5)) stored.push_back(byte);
  EXPECT_EQ(std::memcmp(stored.data(), &value, 8), 0);
}

TEST_F(AtomicRequester, AResponseOfAnotherKindIsDropped) {
  bring_up();
  post_atomic(SendOperation::kFetchAdd, 1, 0, 64);
  post(SendOperation::kRead, 8, 128);
  pump();
  const Bytes before = memory;
  wire::Headers read = from_peer(Operation::kReadResponseOnly, 100);
  read.aeth = wire::Aeth::ack(0);
  receive(read, pattern(8, 3));
  EXPECT_EQ(counter(Counter::kDropBadAck), 1u);
  receive_original(100, 1);
  receive_original(100, 2);  // again
  EXPECT_EQ(counter(Counter::kDropStaleAck), 1u);
  EXPECT_EQ(word(64), 1u);
  receive_original(101, 2);  // to the READ
  EXPECT_EQ(counter(Counter::kDropBadAck), 2u);
  receive_original(102, 2);  // to nothing
  EXPECT_EQ(counter(Counter::kDropBadAck), 3u);
  EXPECT_EQ(memory_at(128, 8), Bytes(before.begin() + 128, before.begin() + 136));
  EXPECT_EQ(send_completions().size(), 1u);
}

TEST_F(AtomicRequester, ItNeedsMemoryThatMayBeWritten) {
  bring_up();
  queue::SendRequest& request = post_atomic(SendOperation::kFetchAdd, 1);
  sends.segments(request)[0].lkey = read_only_keys.lkey;
  EXPECT_TRUE(pump().empty());
  expect_failed_send(CompletionStatus::kLocalProtectionError);
}

TEST_F(AtomicRequester, AndStillWhenTheResponseComes) {
  bring_up();
  post_atomic(SendOperation::kFetchAdd, 1);
  pump();
  static_cast<void>(regions.deregister(keys.lkey));
  receive_original(100, 1);
  expect_failed_send(CompletionStatus::kLocalProtectionError);
}

TEST_F(AtomicRequester, MemoryThatIsGoneWhenTheResponseComes) {
  const FaultCatcher catcher;
  const VanishingMemory gone(1);
  const mem::RegionKeys its = register_region(gone.data(), gone.size(), 0x90000000, kAll);
  bring_up();
  queue::SendRequest& request = post_atomic(SendOperation::kFetchAdd, 1);
  sends.segments(request)[0] = {0x90000000, 8, its.lkey};
  pump();
  gone.vanish(uroce::testing::Vanishing::kUnmapped);
  receive_original(100, 1);
  expect_failed_send(CompletionStatus::kLocalProtectionError);
  EXPECT_EQ(counter(Counter::kMemoryGone), 1u);
  gone.come_back();
}

TEST_F(AtomicRequester, ItIsAboutEightBytes) {
  bring_up();
  queue::SendRequest& request = post(SendOperation::kFetchAdd, 4);
  sends.operands(request) = {1, 0};
  EXPECT_TRUE(pump().empty());
  expect_failed_send(CompletionStatus::kLocalLengthError);
}

TEST_F(AtomicRequester, WithoutInitiatorDepthItIsAnOperationError) {
  attributes.max_rd_atomic = 0;
  bring_up();
  post_atomic(SendOperation::kFetchAdd, 1);
  EXPECT_TRUE(pump().empty());
  expect_failed_send(CompletionStatus::kLocalQpOperationError);
}

}  // namespace
}  // namespace uroce::qp::testing
