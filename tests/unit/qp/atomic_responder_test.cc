// COMPARE & SWAP and FETCH & ADD: responder.
#include <functional>

#include "tests/unit/copy/fault_catcher.h"
#include "tests/unit/copy/vanishing_memory.h"
#include "tests/unit/qp/atomic_fixture.h"

namespace uroce::qp::testing {
namespace {

using uroce::testing::FaultCatcher;
using uroce::testing::kVanishings;
using uroce::testing::VanishingMemory;
using wire::NakCode;
using wire::Operation;

class AtomicResponder : public Atomic {};

TEST_F(AtomicResponder, AnswersGoOutInTheOrderOfTheRequests) {
  attributes.max_dest_rd_atomic = 4;
  bring_up(State::kRtr);
  set_word(0, 5);
  receive_read(5000, 1024, 2 * kMtu);
  receive_add(5002, 0, 1);
  receive_write(Operation::kWriteOnly, 5003, 512, 4, pattern(4));
  receive_read(5004, 0, 8);
  receive_swap(5005, 0, 6, 7);
  receive_write(Operation::kWriteOnly, 5006, 512, 4, pattern(4));
  std::vector<std::pair<Operation, uint32_t>> sent;
  for (const Sent& frame : pump()) sent.emplace_back(frame.operation(), frame.psn());
  const std::vector<std::pair<Operation, uint32_t>> expected = {
      {Operation::kReadResponseFirst, 5000}, {Operation::kReadResponseLast, 5001},
      {Operation::kAtomicAcknowledge, 5002}, {Operation::kReadResponseOnly, 5004},
      {Operation::kAtomicAcknowledge, 5005}, {Operation::kAcknowledge, 5006}};
  EXPECT_EQ(sent, expected);
  EXPECT_EQ(word(0), 7u);
}

TEST_F(AtomicResponder, ItSeesTheWriteBeforeItInTheSameBurst) {
  commit_after_receive = false;
  bring_up(State::kRtr);
  const uint64_t value = 41;
  Bytes payload(8);
  std::memcpy(payload.data(), &value, 8);
  receive_write(Operation::kWriteOnly, 5000, 256, 8, payload);
  receive_add(5001, 256, 1);
  receive_read(5002, 256, 8);
  const auto frames = pump();
  ASSERT_EQ(frames.size(), 2u);
  expect_original(frames[0], 5001, 41);
  EXPECT_EQ(frames[0].aeth().msn, 2u);
  EXPECT_EQ(word(256), 42u);
  EXPECT_EQ(std::memcmp(frames[1].payload().data(), memory.data() + 256, 8), 0);
}

TEST_F(AtomicResponder, OneTooMany) {
  bring_up(State::kRtr);
  set_word(0, 0);
  receive_add(5000, 0, 1);
  receive_read(5001, 0, 1);
  receive_add(5002, 0, 1);
  const auto frames = pump();
  ASSERT_EQ(frames.size(), 3u);  // what was accepted is answered before the NAK
  expect_nak(frames[2], NakCode::kInvalidRequest, 5002);
  EXPECT_EQ(word(0), 1u);
}

struct Refusal {
  const char* what;
  NakCode code;
  std::function<void(wire::AtomicEth&)> spoil;
};

TEST_F(AtomicResponder, Refusals) {
  const mem::RegionKeys write_only =
      register_region(memory.data(), memory.size(), kIova, mem::kLocalWrite | mem::kRemoteWrite);
  const mem::RegionKeys askew = register_region(memory.data() + 4, 64, kIova, kAll);
  const std::vector<Refusal> cases = {
      {"address not a multiple of 8", NakCode::kInvalidRequest, [](auto& atomic) { atomic.address += 4; }},
      {"memory not aligned to 8", NakCode::kInvalidRequest, [&](auto& atomic) { atomic.rkey = askew.rkey; }},
      {"misaligned, and no such key", NakCode::kInvalidRequest,
       [](auto& atomic) {
         ++atomic.address;
         atomic.rkey.value ^= 1;
       }},
      {"wrong key", NakCode::kRemoteAccess, [](auto& atomic) { atomic.rkey.value ^= 1; }},
      {"no right of the region's", NakCode::kRemoteAccess,
       [&](auto& atomic) { atomic.rkey = write_only.rkey; }},
      {"before the region", NakCode::kRemoteAccess, [](auto& atomic) { atomic.address = kIova - 8; }},
      {"behind the region", NakCode::kRemoteAccess, [](auto& atomic) { atomic.address = kIova + kMemory; }},
      {"wraps", NakCode::kRemoteAccess, [](auto& atomic) { atomic.address = UINT64_MAX - 7; }},
  };
  const Bytes before = memory;
  for (const Operation operation : {Operation::kCompareSwap, Operation::kFetchAdd}) {
    for (const Refusal& test : cases) {
      SCOPED_TRACE(test.what);
      ASSERT_EQ(modify(State::kReset), 0);
      bring_up(State::kRtr);
      wire::Headers headers = atomic(operation, 5000, 0, 1, word(0));
      test.spoil(headers.atomic);
      receive(headers);
      EXPECT_EQ(queue_pair->state(), State::kErr);
      expect_nak(pump(), test.code, 5000);
      EXPECT_EQ(memory, before);
    }
  }
  EXPECT_EQ(counter(Counter::kAtomicsExecuted), 0u);
}

TEST_F(AtomicResponder, TheQueuePairMustGrantTheRightToo) {
  attributes.access = mem::kRemoteWrite | mem::kRemoteRead;
  bring_up(State::kRtr);
  receive_add(5000, 0, 1);
  expect_nak(pump(), NakCode::kInvalidRequest, 5000);
}

TEST_F(AtomicResponder, WithoutResourcesNone) {
  attributes.max_dest_rd_atomic = 0;
  bring_up(State::kRtr);
  receive_add(5000, 0, 1);
  expect_nak(pump(), NakCode::kInvalidRequest, 5000);
}

TEST_F(AtomicResponder, AZeroBasedRegionCountsFromItsStart) {
  const mem::RegionKeys its = register_region(memory.data() + 80, 64, 0, kAll | mem::kZeroBased);
  bring_up(State::kRtr);
  set_word(96, 3);
  wire::Headers headers = atomic(Operation::kFetchAdd, 5000, 0, 1);
  headers.atomic.address = 16;
  headers.atomic.rkey = its.rkey;
  receive(headers);
  expect_original(5000, 3);
  EXPECT_EQ(word(96), 4u);
}

TEST_F(AtomicResponder, MemoryThatIsGone) {
  const FaultCatcher catcher;
  for (const auto how : kVanishings) {
    SCOPED_TRACE(uroce::testing::to_string(how));
    const VanishingMemory gone(1);
    const mem::RegionKeys its = register_region(gone.data(), gone.size(), 0x90000000, kAll);
    ASSERT_EQ(modify(State::kReset), 0);
    bring_up(State::kRtr);
    gone.vanish(how);
    wire::Headers headers = atomic(Operation::kFetchAdd, 5000, 0, 1);
    headers.atomic.address = 0x90000000;
    headers.atomic.rkey = its.rkey;
    receive(headers);
    EXPECT_EQ(queue_pair->state(), State::kErr);
    expect_nak(pump(), NakCode::kRemoteAccess, 5000);
    gone.come_back();
  }
  EXPECT_EQ(counter(Counter::kMemoryGone), std::size(kVanishings));
}

TEST_F(AtomicResponder, BehindALostWriteItIsNotExecuted) {
  const FaultCatcher catcher;
  const VanishingMemory gone(1);
  const mem::RegionKeys its = register_region(gone.data(), gone.size(), 0x90000000, kAll);
  commit_after_receive = false;
  bring_up(State::kRtr);
  gone.vanish(uroce::testing::Vanishing::kNoAccess);
  set_word(0, 1);
  wire::Headers write = from_peer(Operation::kWriteOnly, 5000);
  write.reth = {0x90000000, its.rkey, 8};
  receive(write, pattern(8));
  receive_add(5001, 0, 1);
  expect_nak(pump(), NakCode::kRemoteAccess, 5000);
  EXPECT_EQ(word(0), 1u);
  gone.come_back();
}

}  // namespace
}  // namespace uroce::qp::testing
