// ATOMIC WRITE and FLUSH: both ends. They are answered by a READ response without a byte.
#include <functional>

#include "tests/unit/qp/fixture.h"

namespace uroce::qp::testing {
namespace {

using queue::CompletionOpcode;
using queue::CompletionStatus;
using queue::SendOperation;
using wire::AethKind;
using wire::NakCode;
using wire::Operation;

class Flush : public QueuePairTest {
 protected:
  static constexpr mem::Access kAll =
      mem::kLocalWrite | mem::kRemoteWrite | mem::kRemoteRead | mem::kFlushGlobal;

  Flush() {
    attributes.timeout = 0;
    grant(kAll);
  }

  queue::SendRequest& post_flush(uint32_t length, const queue::FlushOperation& how) {
    queue::SendRequest& request = post(SendOperation::kFlush, length);
    request.segments = 0;
    sends.set_operation(request, how);
    return request;
  }
  void receive_done(uint32_t psn, const Bytes& payload = {}) {
    wire::Headers headers = from_peer(Operation::kReadResponseOnly, psn);
    headers.aeth = wire::Aeth::ack(0);
    receive(headers, payload);
  }

  [[nodiscard]] wire::Headers flush(uint32_t psn, const wire::Feth& how) const {
    wire::Headers headers = from_peer(Operation::kFlush, psn);
    headers.reth = {kIova, keys.rkey, 64};
    headers.feth = how;
    return headers;
  }
  void receive_atomic_write(uint32_t psn, uint64_t offset, const Bytes& payload) {
    wire::Headers headers = from_peer(Operation::kAtomicWrite, psn);
    headers.reth = {kIova + offset, keys.rkey, 8};
    receive(headers, payload);
  }
  void expect_done(uint32_t psn) {
    const auto frames = pump();
    ASSERT_EQ(frames.size(), 1u);
    EXPECT_EQ(frames[0].operation(), Operation::kReadResponseOnly);
    EXPECT_EQ(frames[0].psn(), psn);
    EXPECT_EQ(frames[0].aeth().kind, AethKind::kAck);
    EXPECT_TRUE(frames[0].payload().empty());
  }

  static constexpr wire::Feth kGlobal{.global_visibility = true};
};

TEST_F(Flush, RequestsOnTheWire) {
  bring_up();
  post(SendOperation::kAtomicWrite, 8, 100);
  post_flush(1u << 30, {.global_visibility = true, .persistence = true, .whole_region = true});
  const auto frames = pump();
  ASSERT_EQ(frames.size(), 2u);
  EXPECT_EQ(frames[0].operation(), Operation::kAtomicWrite);
  EXPECT_EQ(frames[0].reth().length, 8u);
  EXPECT_EQ(frames[0].reth().address, kRemote);
  EXPECT_EQ(frames[0].payload(), memory_at(100, 8));
  EXPECT_TRUE(frames[0].ack_request());
  EXPECT_EQ(frames[1].operation(), Operation::kFlush);
  EXPECT_EQ(frames[1].psn(), 101u) << "whatever the length, each takes one";
  EXPECT_EQ(frames[1].reth().length, 1u << 30);
  EXPECT_TRUE(frames[1].packet.headers.feth.global_visibility);
  EXPECT_TRUE(frames[1].packet.headers.feth.persistence);
  EXPECT_TRUE(frames[1].packet.headers.feth.whole_region);
}

TEST_F(Flush, OnlyTheirOwnAnswersCompleteThem) {
  bring_up();
  post(SendOperation::kWrite, 8);
  post_flush(8, {.global_visibility = true});
  post(SendOperation::kAtomicWrite, 8);
  pump();
  receive_ack(102);
  EXPECT_EQ(counter(Counter::kImpliedNak), 1u);
  EXPECT_EQ(send_completions().size(), 1u) << "the WRITE";
  EXPECT_EQ(pump().size(), 1u);
  receive_done(101);
  receive_done(102);
  const auto done = send_completions();
  ASSERT_EQ(done.size(), 2u);
  EXPECT_EQ(done[0].opcode, CompletionOpcode::kFlush);
  EXPECT_EQ(done[1].opcode, CompletionOpcode::kAtomicWrite);
  EXPECT_EQ(done[1].status, CompletionStatus::kSuccess);
}

TEST_F(Flush, AnAnswerWithBytesIsABadResponse) {
  bring_up();
  post_flush(8, {.global_visibility = true});
  pump();
  receive_done(100, pattern(1));
  expect_failed_send(CompletionStatus::kBadResponse);
}

TEST_F(Flush, AnAtomicWriteIsOfEightBytes) {
  bring_up();
  post(SendOperation::kAtomicWrite, 7);
  EXPECT_TRUE(pump().empty());
  expect_failed_send(CompletionStatus::kLocalLengthError);
}

TEST_F(Flush, TheyCountAgainstTheInitiatorDepth) {
  bring_up();
  for (int i = 0; i < 2; ++i) post_flush(8, {.global_visibility = true});
  post(SendOperation::kAtomicWrite, 8);
  EXPECT_EQ(pump().size(), 2u);
}

TEST_F(Flush, AnAtomicWriteLandsOnce) {
  bring_up(State::kRtr);
  receive_atomic_write(5000, 64, pattern(8, 1));
  EXPECT_EQ(memory_at(64, 8), pattern(8, 1));
  expect_done(5000);
  fill(64, pattern(8, 2));
  receive_atomic_write(5000, 64, pattern(8, 1));
  expect_done(5000);
  EXPECT_EQ(memory_at(64, 8), pattern(8, 2)) << "a duplicate is answered and not performed";
}

TEST_F(Flush, WhatCameBeforeAFlushIsThereBeforeItsAnswer) {
  commit_after_receive = false;
  bring_up(State::kRtr);
  receive_write(Operation::kWriteOnly, 5000, 0, 8, pattern(8, 7));
  receive(flush(5001, kGlobal));
  EXPECT_EQ(memory_at(0, 8), pattern(8, 7)) << "before the end of the burst";
  expect_done(5001);
  receive(flush(5001, kGlobal));
  expect_done(5001);
}

TEST_F(Flush, OfAWholeRegionWhateverTheAddress) {
  bring_up(State::kRtr);
  wire::Headers headers = flush(5000, {.global_visibility = true, .whole_region = true});
  headers.reth.address = 0;
  headers.reth.length = UINT32_MAX;
  receive(headers);
  expect_done(5000);
}

struct FlushRefusal {
  const char* what;
  NakCode code;
  std::function<void(wire::Headers&)> spoil;
};

TEST_F(Flush, Refusals) {
  const mem::RegionKeys plain =
      register_region(memory.data(), kMemory, kIova, mem::kLocalWrite | mem::kRemoteWrite);
  const std::vector<FlushRefusal> cases = {
      {"no type", NakCode::kInvalidRequest, [](auto& headers) { headers.feth = {}; }},
      {"persistence: no queue pair has the right", NakCode::kInvalidRequest,
       [](auto& headers) { headers.feth.persistence = true; }},
      {"no right of the region's", NakCode::kRemoteAccess,
       [&](auto& headers) { headers.reth.rkey = plain.rkey; }},
      {"no such key", NakCode::kRemoteAccess, [](auto& headers) { headers.reth.rkey.value ^= 1; }},
      {"no such key, whole region", NakCode::kRemoteAccess,
       [](auto& headers) {
         headers.reth.rkey.value ^= 0x500000;
         headers.feth.whole_region = true;
       }},
      {"beyond the end", NakCode::kRemoteAccess, [](auto& headers) { headers.reth.length = kMemory + 1; }},
      {"before the start", NakCode::kRemoteAccess, [](auto& headers) { --headers.reth.address; }},
  };
  for (const FlushRefusal& test : cases) {
    SCOPED_TRACE(test.what);
    ASSERT_EQ(modify(State::kReset), 0);
    bring_up(State::kRtr);
    wire::Headers headers = flush(5000, kGlobal);
    test.spoil(headers);
    receive(headers);
    expect_nak(pump(), test.code, 5000);
  }
}

TEST_F(Flush, RefusalsOfAtomicWrites) {
  const mem::RegionKeys readable = register_region(memory.data(), kMemory, kIova, mem::kRemoteRead);
  const mem::RegionKeys askew = register_region(memory.data() + 4, 64, kIova, kAll);
  const std::vector<FlushRefusal> cases = {
      {"address", NakCode::kInvalidRequest, [](auto& headers) { headers.reth.address += 4; }},
      {"memory not aligned", NakCode::kInvalidRequest,
       [&](auto& headers) { headers.reth.rkey = askew.rkey; }},
      {"length", NakCode::kInvalidRequest, [](auto& headers) { headers.reth.length = 16; }},
      {"right", NakCode::kRemoteAccess, [&](auto& headers) { headers.reth.rkey = readable.rkey; }},
      {"bounds", NakCode::kRemoteAccess, [](auto& headers) { headers.reth.address = kIova + kMemory; }},
  };
  const Bytes before = memory;
  for (const FlushRefusal& test : cases) {
    SCOPED_TRACE(test.what);
    ASSERT_EQ(modify(State::kReset), 0);
    bring_up(State::kRtr);
    wire::Headers headers = from_peer(Operation::kAtomicWrite, 5000);
    headers.reth = {kIova, keys.rkey, 8};
    test.spoil(headers);
    receive(headers, pattern(8, 99));
    expect_nak(pump(), test.code, 5000);
    EXPECT_EQ(memory, before);
  }
}

TEST_F(Flush, TheQueuePairMustGrantIt) {
  attributes.access = mem::kRemoteWrite;
  bring_up(State::kRtr);
  receive(flush(5000, kGlobal));
  expect_nak(pump(), NakCode::kInvalidRequest, 5000);
}

/// The responder's resources: what takes one, and that all of them share the limit. A FLUSH too many is
/// dropped, because Linux's requester does not count it.
TEST_F(Flush, EveryOperationThatIsAnsweredByItselfTakesAResource) {
  grant(kAll | mem::kRemoteAtomic);
  const std::vector<Operation> operations = {Operation::kReadRequest, Operation::kCompareSwap,
                                             Operation::kFetchAdd, Operation::kFlush,
                                             Operation::kAtomicWrite};
  for (const uint32_t limit : {1u, 2u, 4u, 16u}) {
    for (size_t first = 0; first < operations.size(); ++first) {
      SCOPED_TRACE(::testing::Message() << "limit " << limit << " from operation " << first);
      attributes.max_dest_rd_atomic = static_cast<uint8_t>(limit);
      ASSERT_EQ(modify(State::kReset), 0);
      bring_up(State::kRtr);
      for (uint32_t i = 0; i <= limit; ++i) {
        EXPECT_EQ(queue_pair->state(), State::kRtr);
        const Operation operation = operations[(first + i) % operations.size()];
        wire::Headers headers = from_peer(operation, 5000 + i);
        headers.reth = {kIova, keys.rkey, 8};
        headers.atomic = {kIova, keys.rkey, 1, 1};
        headers.feth = kGlobal;
        receive(headers, operation == Operation::kAtomicWrite ? pattern(8) : Bytes{});
      }
      const bool dropped = operations[(first + limit) % operations.size()] == Operation::kFlush;
      EXPECT_EQ(queue_pair->state(), dropped ? State::kRtr : State::kErr);
      const auto frames = pump();
      ASSERT_EQ(frames.size(), dropped ? limit : limit + 1u);
      if (!dropped) expect_nak(frames.back(), NakCode::kInvalidRequest, 5000 + limit);
    }
  }
}

}  // namespace
}  // namespace uroce::qp::testing
