// When a queue pair takes the memory of its transport, and what it does without. That one which takes it late
// is like any other all tests of this folder show: their fixture has no other.
#include "qp/queue_pair/queue_pair_storage.h"

#include <cerrno>
#include <memory_resource>
#include <new>
#include <optional>

#include "tests/unit/qp/fast_registration.h"
#include "tests/unit/qp/refused_memory.h"

namespace uroce::qp::testing {
namespace {

using queue::SendOperation;
using wire::Operation;

/// Of the heap, or none.
class CountedMemory final : public std::pmr::memory_resource {
 public:
  size_t pieces = 0;
  size_t bytes = 0;
  bool refuses = false;

 private:
  void* do_allocate(size_t wanted, size_t alignment) override {
    if (refuses) throw std::bad_alloc();
    ++pieces;
    bytes += wanted;
    return std::pmr::new_delete_resource()->allocate(wanted, alignment);
  }
  void do_deallocate(void* piece, size_t wanted, size_t alignment) override {
    --pieces;
    bytes -= wanted;
    std::pmr::new_delete_resource()->deallocate(piece, wanted, alignment);
  }
  [[nodiscard]] bool do_is_equal(const memory_resource& other) const noexcept override {
    return this == &other;
  }
};

class QueuePairStorageTest : public FastRegistrationTest {
 protected:
  QueuePairStorageTest() {
    transport.memory = &given;
    queue_pair = std::make_unique<QueuePairStorage>(options);
  }
  ~QueuePairStorageTest() override { queue_pair = nullptr; }

  QueuePairStorage& lazy() { return queue_pair.lazy(); }

  static constexpr AttributeMask kToInit = kMaskAccessFlags | kMaskPkeyIndex | kMaskPort;
  static constexpr AttributeMask kToRtr =
      kMaskAv | kMaskPathMtu | kMaskDestQpn | kMaskRqPsn | kMaskMaxDestRdAtomic | kMaskMinRnrTimer;
  static constexpr AttributeMask kToRts =
      kMaskSqPsn | kMaskTimeout | kMaskRetryCount | kMaskRnrRetry | kMaskMaxRdAtomic;

  CountedMemory given;
};

TEST_F(QueuePairStorageTest, ConnectedAndUnused_ExpectNoMemory) {
  EXPECT_LE(sizeof(QueuePair), 1024u) << "what it takes then";
  for (const State state : {State::kInit, State::kRtr, State::kRts}) {
    ASSERT_EQ(modify(State::kReset), 0);
    bring_up(state);
    EXPECT_EQ(lazy().state(), state);
    EXPECT_EQ(lazy().used(), nullptr);
    EXPECT_EQ(given.pieces, 0u);
  }
  post_receive(1);
  EXPECT_FALSE(lazy().wants_use());
  EXPECT_FALSE(lazy().answer(turn, 8));
  EXPECT_EQ(lazy().attributes().destination, attributes.destination);
  EXPECT_EQ(lazy().due_request(), kPeerPsn);
  EXPECT_EQ(lazy().due_response(), kOurPsn);
  EXPECT_EQ(lazy().sent().messages, 0u);
  EXPECT_EQ(lazy().received().messages, 0u);
  EXPECT_EQ(lazy().unanswered(), 0u);
  EXPECT_EQ(lazy().congestion().window, queue_pair->congestion().window) << "as when it is used";
  EXPECT_EQ(given.pieces, 1u);
  EXPECT_EQ(given.bytes, sizeof(QueuePair));
}

TEST_F(QueuePairStorageTest, ItIsUsedFromThenOn) {
  bring_up();
  post(SendOperation::kSend, 1);
  EXPECT_TRUE(lazy().wants_use());
  ASSERT_NE(lazy().use(), nullptr);
  EXPECT_FALSE(lazy().wants_use());
  const auto sent = pump();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(Psn(sent[0].psn()), kOurPsn);
  receive_ack(sent[0].psn());
  EXPECT_EQ(lazy().sent().messages, 1u);
  ASSERT_EQ(modify(State::kReset), 0);
  EXPECT_NE(lazy().used(), nullptr);
  EXPECT_EQ(lazy().sent().messages, 1u);
}

TEST_F(QueuePairStorageTest, StatesOfUsedOnesUseIt) {
  for (const State state : {State::kSqd, State::kErr}) {
    queue_pair = std::make_unique<QueuePairStorage>(options);
    bring_up();
    ASSERT_EQ(lazy().used(), nullptr);
    ASSERT_EQ(modify(state), 0);
    EXPECT_NE(lazy().used(), nullptr);
    EXPECT_EQ(lazy().state(), state);
  }
}

TEST_F(QueuePairStorageTest, PacketsOfAnotherPartition_ExpectNoUse) {
  constexpr uint16_t kKeys[] = {0xFFFF, 0x0123};
  transport.partition_keys = kKeys;
  queue_pair = std::make_unique<QueuePairStorage>(options);
  attributes.pkey_index = 1;
  bring_up(State::kRtr);
  wire::Headers headers = from_peer(Operation::kSendOnly, kPeerPsn.value());
  for (const uint16_t key : std::initializer_list<uint16_t>{0xFFFF, 0x8124, 0x0123}) {
    headers.bth.partition_key = key;
    receive(headers);
    EXPECT_EQ(lazy().used(), nullptr) << key;
  }
  EXPECT_EQ(counter(Counter::kDropPartitionKey), 3u);
  EXPECT_EQ(given.pieces, 0u);
  headers.bth.partition_key = 0x8123;
  receive(headers);
  EXPECT_NE(lazy().used(), nullptr);
}

TEST_F(QueuePairStorageTest, ModifyWithoutMemory_ExpectEnomemAndNothingChanged) {
  const std::pair<State, AttributeMask> steps[] = {
      {State::kInit, kToInit}, {State::kRtr, kToRtr}, {State::kRts, kToRts}, {State::kErr, {}}};
  for (const auto& [state, mask] : steps) {
    const State before = lazy().state();
    given.refuses = true;
    EXPECT_EQ(modify(state, mask), ENOMEM);
    EXPECT_EQ(lazy().state(), before);
    EXPECT_EQ(lazy().used(), nullptr);
    given.refuses = false;
    EXPECT_EQ(modify(state, mask), 0);
  }
}

TEST_F(QueuePairStorageTest, ModifyWithoutMemoryForReads_ExpectEnomemAndNothingKept) {
  bring_up(State::kInit);
  for (const auto& [state, mask] : {std::pair(State::kRtr, kToRtr), std::pair(State::kRts, kToRts)}) {
    const State before = lazy().state();
    {
      const RefusedMemory refused;
      EXPECT_EQ(modify(state, mask), ENOMEM);
    }
    EXPECT_EQ(lazy().state(), before);
    EXPECT_EQ(given.pieces, 0u);
    EXPECT_EQ(modify(state, mask), 0);
  }
}

TEST_F(QueuePairStorageTest, ModifyWithoutMemoryForARateLimit_ExpectEnomemAndNothingKept) {
  transport.congestion.control = CongestionControl::kSwift;
  attributes.max_rd_atomic = 0;
  queue_pair = std::make_unique<QueuePairStorage>(options);
  bring_up(State::kRtr);
  // What it answers READs with would want memory, too.
  ASSERT_NE(lazy().use(), nullptr);
  {
    const RefusedMemory refused;
    EXPECT_EQ(modify(State::kRts, kToRts), ENOMEM);
  }
  EXPECT_EQ(lazy().state(), State::kRtr);
  EXPECT_EQ(lazy().congestion().window, SendWindow::kPackets) << "nothing limits it";
  EXPECT_EQ(modify(State::kRts, kToRts), 0);
  EXPECT_LT(lazy().congestion().window, SendWindow::kPackets);
}

TEST_F(QueuePairStorageTest, FirstUseWithoutMemory_ExpectItToBeUsableLater) {
  bring_up();
  post(SendOperation::kSend, 1);
  given.refuses = true;
  EXPECT_EQ(lazy().use(), nullptr);
  EXPECT_TRUE(lazy().wants_use());
  given.refuses = false;
  {
    const RefusedMemory refused;
    EXPECT_EQ(lazy().use(), nullptr) << "for READs there is none";
    EXPECT_EQ(given.pieces, 0u);
  }
  EXPECT_EQ(pump().size(), 1u);
}

TEST_F(QueuePairStorageTest, UnderAlgorithmsOfCongestion_ExpectFirstUseToNeedTheirMemory) {
  transport.congestion.control = CongestionControl::kSwift;
  attributes.max_rd_atomic = attributes.max_dest_rd_atomic = 0;
  queue_pair = std::make_unique<QueuePairStorage>(options);
  bring_up();
  {
    const RefusedMemory refused;
    EXPECT_EQ(lazy().use(), nullptr);
  }
  EXPECT_EQ(given.pieces, 0u);
  ASSERT_NE(lazy().use(), nullptr);
  EXPECT_LT(lazy().congestion().window, SendWindow::kPackets);
}

TEST_F(QueuePairStorageTest, ItEndsUnused_ExpectWhatWasPostedToBeGivenBack) {
  bring_up();
  post_register(1);
  given.refuses = true;
  EXPECT_NE(unmap(), 0) << "the list is posted";
  EXPECT_TRUE(lazy().abandon(turn));
  EXPECT_EQ(unmap(), 0);
  EXPECT_EQ(sends.outstanding(), 0u);
}

}  // namespace
}  // namespace uroce::qp::testing
