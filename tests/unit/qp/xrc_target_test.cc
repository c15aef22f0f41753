// XRC, the target: it answers as RC does, with the receives, the completion queue and the protection domain
// of the shared receive queue that each request names.
#include <algorithm>
#include <memory>

#include "tests/unit/copy/fault_catcher.h"
#include "tests/unit/copy/vanishing_memory.h"
#include "tests/unit/qp/fixture.h"

namespace uroce::qp::testing {
namespace {

using queue::CompletionStatus;
using queue::SrqNumber;
using queue::XrcDomainId;
using wire::AethKind;
using wire::NakCode;
using wire::Operation;

constexpr mem::Access kAll = mem::kLocalWrite | mem::kRemoteWrite | mem::kRemoteRead | mem::kRemoteAtomic;
constexpr XrcDomainId kOurDomain{1};

/// A shared receive queue with everything that counts for a message that names it. Its region is all of the
/// memory.
struct Receiver {
  SrqNumber number;
  DomainId domain;
  mem::RegionKeys keys;
  std::unique_ptr<queue::CompletionQueue> completions;
  std::unique_ptr<queue::SharedReceiveQueue> queue;

  std::vector<queue::Completion> completed() {
    std::vector<queue::Completion> all(64);
    all.resize(completions->poll(all));
    return all;
  }
  [[nodiscard]] bool all_slots_are_free() const {
    for (uint32_t i = 0; i < queue->options().depth; ++i)
      if (queue->reserve() == nullptr) return false;
    return true;
  }
};

class XrcTarget : public QueuePairTest {
 protected:
  XrcTarget() : QueuePairTest(Type::kXrcReceive) {
    make(first, {2}, kOurDomain);
    make(second, {3}, kOurDomain);
    make(foreign, {2}, {2});
    options.domain = {};
    options.send_completions = options.receive_completions = nullptr;
    transport.xrc_receives = &table;
    options.xrc_domain = kOurDomain;
    transport.credits = true;
    queue_pair = std::make_unique<QueuePairStorage>(options);
    attributes.access = kAll;
    bring_up(State::kRtr);
  }

  void make(Receiver& receiver, DomainId its_domain, XrcDomainId xrc_domain) {
    receiver.completions =
        std::make_unique<queue::CompletionQueue>(queue::CompletionQueue::Options{.depth = 64});
    receiver.number = table.allocate({}).value();
    receiver.domain = its_domain;
    receiver.keys = regions
                        .register_user({.domain = its_domain,
                                        .address = memory.data(),
                                        .length = memory.size(),
                                        .iova = kIova,
                                        .access = kAll})
                        .value();
    receiver.queue = std::make_unique<queue::SharedReceiveQueue>(queue::SharedReceiveQueue::Options{
        .depth = 4,
        .domain = its_domain,
        .xrc = {
            .xrc_domain = xrc_domain, .number = receiver.number, .completions = receiver.completions.get()}});
    table.publish(receiver.number, *receiver.queue);
  }

  void post_to(Receiver& receiver, uint64_t id, uint32_t length, uint64_t offset) {
    queue::ReceiveRequest& request = *receiver.queue->reserve();
    request.wr_id = id;
    request.length = length;
    request.segments = 1;
    receiver.queue->segments(request)[0] = {kIova + offset, length, receiver.keys.lkey};
    receiver.queue->publish(request);
  }

  [[nodiscard]] wire::Headers to(const Receiver& receiver, Operation operation, uint32_t psn) const {
    wire::Headers headers = from_peer(operation, psn);
    headers.xrc_srq = receiver.number.value;
    headers.bth.ack_request = true;
    headers.reth = {kIova, receiver.keys.rkey, 0};
    return headers;
  }
  void send_to(const Receiver& receiver, Operation operation, uint32_t psn, const Bytes& payload) {
    receive(to(receiver, operation, psn), payload);
  }
  /// Of `bytes` at `offset`, with the keys of `owner`.
  void read_from(const Receiver& receiver, const Receiver& owner, uint32_t psn, uint64_t offset,
                 uint32_t bytes) {
    wire::Headers headers = to(receiver, Operation::kReadRequest, psn);
    headers.reth = {kIova + offset, owner.keys.rkey, bytes};
    receive(headers);
  }
  void expect_refused(NakCode code, uint32_t psn) {
    expect_nak(pump(), code, psn);
    EXPECT_EQ(queue_pair->state(), State::kErr);
  }
  void expect_event(Event event) const {
    EXPECT_NE(std::ranges::find(events.list, event), events.list.end());
  }

  queue::SharedReceiveTable table{{.numbers = 1u << 10}};
  Receiver first;
  Receiver second;
  Receiver foreign;  // of another XRC domain
};

TEST_F(XrcTarget, AMessageGoesToTheReceivesThatItNames) {
  post_to(first, 1, 600, 4000);
  post_to(second, 2, 600, 8000);
  post_to(first, 3, 600, 12000);
  commit_after_receive = false;
  send_to(second, Operation::kSendFirst, 5000, pattern(kMtu, 1));
  send_to(second, Operation::kSendLast, 5001, pattern(10, 2));
  send_to(first, Operation::kSendOnly, 5002, pattern(20, 3));
  wire::Headers headers = to(first, Operation::kSendOnlyImm, 5003);
  headers.immediate = 77;
  receive(headers, pattern(30, 4));
  expect_answer(pump(), AethKind::kAck, wire::kNoCredits, 5003);

  const auto to_second = second.completed();
  ASSERT_EQ(to_second.size(), 1u);
  EXPECT_EQ(to_second[0].wr_id, 2u);
  EXPECT_EQ(to_second[0].bytes, kMtu + 10);
  EXPECT_EQ(to_second[0].local, queue_pair->number());
  EXPECT_EQ(to_second[0].remote, attributes.destination);
  const auto to_first = first.completed();
  ASSERT_EQ(to_first.size(), 2u);
  EXPECT_EQ(to_first[0].wr_id, 1u);
  EXPECT_EQ(to_first[1].wr_id, 3u);
  EXPECT_EQ(to_first[1].immediate, 77u);
  EXPECT_EQ(memory_at(8000, kMtu), pattern(kMtu, 1));
  EXPECT_EQ(memory_at(8000 + kMtu, 10), pattern(10, 2));
  EXPECT_EQ(memory_at(4000, 20), pattern(20, 3));
  EXPECT_EQ(memory_at(12000, 30), pattern(30, 4));
  EXPECT_TRUE(first.all_slots_are_free());
  EXPECT_TRUE(second.all_slots_are_free());
}

TEST_F(XrcTarget, KeysAreOfTheDomainOfTheQueueThatIsNamed) {
  wire::Headers write = to(first, Operation::kWriteOnly, 5000);
  write.reth = {kIova + 100, first.keys.rkey, 8};
  receive(write, pattern(8, 1));
  expect_answer(pump(), AethKind::kAck, wire::kNoCredits, 5000);
  EXPECT_EQ(memory_at(100, 8), pattern(8, 1));

  wire::Headers atomic = to(second, Operation::kFetchAdd, 5001);
  atomic.atomic = {kIova + 64, second.keys.rkey, 1, 0};
  receive(atomic);
  EXPECT_EQ(pump().at(0).operation(), Operation::kAtomicAcknowledge);

  write = to(second, Operation::kWriteOnly, 5002);
  write.reth = {kIova + 100, first.keys.rkey, 8};
  receive(write, pattern(8, 2));
  expect_refused(NakCode::kRemoteAccess, 5002);
  EXPECT_EQ(memory_at(100, 8), pattern(8, 1));
}

TEST_F(XrcTarget, AReceiveBufferWithAKeyOfAnotherDomainIsOurOwnMistake) {
  post_to(first, 1, 600, 4000);
  queue::ReceiveRequest& request = *second.queue->reserve();
  request.length = 100;
  request.segments = 1;
  second.queue->segments(request)[0] = {kIova, 100, first.keys.lkey};
  second.queue->publish(request);
  send_to(second, Operation::kSendOnly, 5000, pattern(6));
  expect_refused(NakCode::kRemoteOperational, 5000);
  ASSERT_EQ(second.completed().size(), 1u);
  EXPECT_TRUE(first.completed().empty());
}

TEST_F(XrcTarget, AReadIsAnsweredWithTheKeysOfItsOwnQueueWhateverCameBehindIt) {
  post_to(second, 2, 600, 8000);
  commit_after_receive = false;
  read_from(first, first, 5000, 0, 2 * kMtu);
  send_to(second, Operation::kSendOnly, 5002, pattern(6));
  const auto frames = pump();
  ASSERT_EQ(frames.size(), 3u);
  EXPECT_EQ(frames[0].operation(), Operation::kReadResponseFirst);
  EXPECT_EQ(frames[0].payload(), memory_at(0, kMtu));
  EXPECT_EQ(frames[1].operation(), Operation::kReadResponseLast);
  EXPECT_EQ(frames[2].operation(), Operation::kAcknowledge);

  // Again: the missing rest, and then as if it had been for the other one.
  read_from(first, first, 5001, kMtu, kMtu);
  EXPECT_EQ(pump().at(0).payload(), memory_at(kMtu, kMtu));
  read_from(second, first, 5001, kMtu, kMtu);
  EXPECT_TRUE(pump().empty());
  EXPECT_EQ(counter(Counter::kDropResources), 1u);
}

TEST_F(XrcTarget, AResponseIsNotFinishedForAQueueThatIsGone) {
  read_from(first, first, 5000, 0, 4 * kMtu);
  pump_once(2);
  ASSERT_FALSE(take_sent().empty());
  table.unpublish(first.number);
  queue_pair->forget_receives(*first.queue);
  const auto frames = pump();
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_EQ(frames[0].aeth().kind, AethKind::kNak);
  EXPECT_EQ(frames[0].aeth().value, static_cast<uint8_t>(NakCode::kRemoteAccess));
}

TEST_F(XrcTarget, ANumberOfAnotherXrcDomainIsAnInvalidRequest) {
  post_to(foreign, 1, 600, 4000);
  send_to(foreign, Operation::kSendOnly, 5000, pattern(6));
  expect_refused(NakCode::kInvalidRequest, 5000);
  EXPECT_EQ(counter(Counter::kDropUnknownSrq), 1u);
  EXPECT_FALSE(foreign.queue->empty());
}

TEST_F(XrcTarget, AMessageKeepsToOneQueue) {
  post_to(first, 1, 600, 4000);
  post_to(second, 2, 600, 8000);
  send_to(first, Operation::kSendFirst, 5000, pattern(kMtu));
  send_to(second, Operation::kSendLast, 5001, pattern(6));
  expect_refused(NakCode::kInvalidRequest, 5001);
  const auto done = first.completed();
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].status, CompletionStatus::kFlushed);
  EXPECT_TRUE(second.completed().empty());
  EXPECT_TRUE(first.all_slots_are_free());
}

TEST_F(XrcTarget, AQueueThatGoesTakesItsMessageAlong) {
  post_to(first, 1, 600, 4000);
  post_to(second, 2, 600, 8000);
  send_to(first, Operation::kSendFirst, 5000, pattern(kMtu));
  table.unpublish(first.number);
  queue_pair->forget_receives(*second.queue);  // which is not the one
  queue_pair->forget_receives(*first.queue);
  first.queue.reset();
  send_to(first, Operation::kSendLast, 5001, pattern(6));
  expect_refused(NakCode::kInvalidRequest, 5001);
  EXPECT_TRUE(first.completed().empty());
}

TEST_F(XrcTarget, AQueueThatGoesBetweenMessagesIsNoLongerThere) {
  post_to(first, 1, 600, 4000);
  send_to(first, Operation::kSendOnly, 5000, pattern(6));
  EXPECT_EQ(first.completed().size(), 1u);
  table.unpublish(first.number);
  queue_pair->forget_receives(*first.queue);
  first.queue.reset();
  post_to(second, 2, 600, 8000);
  send_to(second, Operation::kSendOnly, 5001, pattern(6));
  expect_answer(pump(), AethKind::kAck, wire::kNoCredits, 5001);
  send_to(first, Operation::kSendOnly, 5002, pattern(6));
  expect_refused(NakCode::kInvalidRequest, 5002);
}

TEST_F(XrcTarget, ItsEndGivesBackWhatItTook) {
  post_to(first, 1, 600, 4000);
  send_to(first, Operation::kSendFirst, 5000, pattern(kMtu));
  EXPECT_TRUE(queue_pair->abandon(turn));
  EXPECT_TRUE(first.all_slots_are_free());
  EXPECT_TRUE(first.completed().empty());
}

TEST_F(XrcTarget, ALostMessageIsTakenBackBeforeTheNextQueueIsServed) {
  const uroce::testing::FaultCatcher catcher;
  const uroce::testing::VanishingMemory gone{1};
  constexpr uint64_t kGoneIova = 0x90000000;
  const MemoryKey lkey = regions
                             .register_user({.domain = first.domain,
                                             .address = gone.data(),
                                             .length = gone.size(),
                                             .iova = kGoneIova,
                                             .access = kAll})
                             .value()
                             .lkey;
  gone.vanish(uroce::testing::Vanishing::kNoAccess);
  queue::ReceiveRequest& request = *first.queue->reserve();
  request.length = 100;
  request.segments = 1;
  first.queue->segments(request)[0] = {kGoneIova, 100, lkey};
  first.queue->publish(request);
  post_to(second, 2, 600, 8000);
  const Bytes before = memory_at(8000, 6);
  commit_after_receive = false;
  send_to(first, Operation::kSendOnly, 5000, pattern(6, 1));
  send_to(second, Operation::kSendOnly, 5001, pattern(6, 2));
  expect_refused(NakCode::kRemoteOperational, 5000);
  const auto done = first.completed();
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].status, CompletionStatus::kLocalProtectionError);
  EXPECT_TRUE(second.completed().empty());
  EXPECT_EQ(memory_at(8000, 6), before);
}

TEST_F(XrcTarget, InTheErrorStateWhatWasTakenIsFlushed) {
  post_to(first, 1, 600, 4000);
  post_to(first, 2, 600, 8000);
  send_to(first, Operation::kSendFirst, 5000, pattern(kMtu));
  ASSERT_EQ(modify(State::kErr), 0);
  const auto done = first.completed();
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].status, CompletionStatus::kFlushed);
  expect_event(Event::kLastReceive);
  EXPECT_FALSE(first.queue->empty());
}

}  // namespace
}  // namespace uroce::qp::testing
