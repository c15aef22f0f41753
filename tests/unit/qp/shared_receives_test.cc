#include "tests/unit/qp/fixture.h"

namespace uroce::qp::testing {
namespace {

using queue::CompletionStatus;
using wire::Operation;

struct Heard final : EventListener {
  void raised(Event event) override { events.push_back(event); }
  std::vector<Event> events;
};

/// A queue pair whose receives come from a queue that others use, too.
class SharedReceives : public QueuePairTest {
 protected:
  SharedReceives() {
    options.shared_receives = &shared;
    options.listener = &heard;
    queue_pair = std::make_unique<QueuePairStorage>(options);
  }

  void post_shared(uint64_t id, uint32_t length, uint64_t offset) {
    queue::ReceiveRequest& request = *shared.reserve();
    request.wr_id = id;
    request.length = length;
    request.segments = 1;
    shared.segments(request)[0] = segment(offset, length);
    shared.publish(request);
  }

  queue::SharedReceiveQueue shared{{.depth = 4, .domain = {1}}};
  Heard heard;
};

/// A shared receive queue of another protection domain than the queue pair's: of each service that has one.
class ForeignReceives : public QueuePairTest, public ::testing::WithParamInterface<Type> {
 protected:
  ForeignReceives() : QueuePairTest(GetParam()) {
    options.shared_receives = &shared;
    queue_pair = std::make_unique<QueuePairStorage>(options);
    bring_up();
  }
  void post_with(MemoryKey lkey, uint32_t segments) {
    queue::ReceiveRequest& request = *shared.reserve();
    request.length = 100 * segments;
    request.segments = static_cast<uint16_t>(segments);
    for (uint32_t i = 0; i < segments; ++i) shared.segments(request)[i] = {kIova + 4000 + 100 * i, 100, lkey};
    shared.publish(request);
  }
  CompletionStatus receive_one() {
    wire::Headers headers = from_peer(Operation::kSendOnly, 5000);
    headers.deth = {kQkey, {0x99}};
    receive(headers, pattern(60));
    const auto done = receive_completions();
    EXPECT_EQ(done.size(), 1u);
    return done.empty() ? CompletionStatus::kGeneral : done[0].status;
  }

  queue::SharedReceiveQueue shared{{.depth = 4, .segments_max = 2, .domain = {2}}};
  mem::RegionKeys of_queue = regions
                                 .register_user({.domain = {2},
                                                 .address = memory.data(),
                                                 .length = memory.size(),
                                                 .iova = kIova,
                                                 .access = mem::kLocalWrite})
                                 .value();
};

INSTANTIATE_TEST_SUITE_P(Services, ForeignReceives, ::testing::Values(Type::kRc, Type::kUd));

TEST_P(ForeignReceives, ABufferOfTheQueuesDomainIsTaken) {
  for (const uint32_t segments : {1U, 2U}) {
    post_with(of_queue.lkey, segments);
    wire::Headers headers = from_peer(Operation::kSendOnly, 4999 + segments);
    headers.deth = {kQkey, {0x99}};
    receive(headers, pattern(60, segments));
    const auto done = receive_completions();
    ASSERT_EQ(done.size(), 1u);
    EXPECT_EQ(done[0].status, CompletionStatus::kSuccess);
    const size_t header = GetParam() == Type::kUd ? 40 : 0;
    EXPECT_EQ(memory_at(4000 + header, 60), pattern(60, segments));
  }
}

TEST_P(ForeignReceives, OneOfTheQueuePairsDomainIsRefused) {
  const Bytes before = memory;
  post_with(keys.lkey, 1);
  EXPECT_EQ(receive_one(), CompletionStatus::kLocalProtectionError);
  EXPECT_EQ(memory, before);
  EXPECT_EQ(queue_pair->state(), State::kErr);
}

TEST_F(SharedReceives, AMessageTakesARequestWithItsFirstPacket) {
  bring_up();
  post_shared(1, 600, 4000);
  post_shared(2, 600, 8000);
  receive(Operation::kSendFirst, 5000, pattern(kMtu, 1));
  EXPECT_EQ(shared.front().wr_id, 2u) << "the first is no other queue pair's any more";
  receive(Operation::kSendLast, 5001, pattern(5, 2), true);
  receive(Operation::kSendOnly, 5002, pattern(6, 3), true);
  const auto done = receive_completions();
  ASSERT_EQ(done.size(), 2u);
  EXPECT_EQ(done[0].wr_id, 1u);
  EXPECT_EQ(done[0].bytes, kMtu + 5);
  EXPECT_EQ(done[1].wr_id, 2u);
  EXPECT_EQ(memory_at(4000, kMtu), pattern(kMtu, 1));
  EXPECT_EQ(memory_at(8000, 6), pattern(6, 3));
  EXPECT_TRUE(shared.empty());
  for (int i = 0; i < 4; ++i) EXPECT_NE(shared.reserve(), nullptr) << "all slots are back";
}

TEST_F(SharedReceives, AWriteWithImmediateTakesARequestWithItsLastPacket) {
  bring_up();
  wire::Headers headers = from_peer(Operation::kWriteFirst, 5000);
  headers.reth = {kIova, keys.rkey, kMtu + 1};
  receive(headers, pattern(kMtu));
  post_shared(1, 0, 0);
  headers = from_peer(Operation::kWriteLastImm, 5001);
  receive(headers, pattern(1));
  ASSERT_EQ(receive_completions().size(), 1u);
  EXPECT_TRUE(shared.empty());
}

TEST_F(SharedReceives, AResetGivesBackWhatWasTakenWithoutAWord) {
  bring_up();
  post_shared(1, 600, 4000);
  receive(Operation::kSendFirst, 5000, pattern(kMtu, 1));
  ASSERT_EQ(modify(State::kReset), 0);
  EXPECT_TRUE(receive_completions().empty());
  for (int i = 0; i < 4; ++i) EXPECT_NE(shared.reserve(), nullptr);
}

TEST_F(SharedReceives, ARequestThatIsTooShortFailsAndItsSlotComesBack) {
  bring_up();
  post_shared(1, 5, 4000);
  receive(Operation::kSendOnly, 5000, pattern(6));
  expect_failed_receive(CompletionStatus::kLocalLengthError);
  for (int i = 0; i < 4; ++i) EXPECT_NE(shared.reserve(), nullptr);
}

}  // namespace
}  // namespace uroce::qp::testing
