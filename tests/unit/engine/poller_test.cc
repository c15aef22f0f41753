#include "engine/poller/poller.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <set>
#include <thread>

#include "virtual_pair.h"

namespace uroce::engine {
namespace {

void connect(Side& a, Side& b) { ASSERT_EQ(connect_pair(a, b), 0); }

TEST(Poller, CarriesAWriteByTurnsAlone) {
  VirtualPair pair;
  Side left(pair.left, 50'000);
  Side right(pair.right, 50'000);
  connect(left, right);
  fill(left.buffer(), 1);

  left.post_write(right, 50'000, 7);
  EXPECT_FALSE(left.look());
  pair.settle();
  const auto completion = left.look();
  ASSERT_TRUE(completion);
  EXPECT_EQ(completion->status, queue::CompletionStatus::kSuccess);
  EXPECT_EQ(completion->wr_id, 7u);
  EXPECT_EQ(left.buffer(), right.buffer());
  EXPECT_GE(pair.counter(*pair.right_state, Counter::kRxFrames), 49u);  // path MTU 1024
  EXPECT_EQ(pair.counter(*pair.right_state, Counter::kRxFrames),
            pair.counter(*pair.left_state, Counter::kTxFrames));
}

TEST(Poller, TellsABusyOneFromAnIdleOne) {
  VirtualPair pair;
  Poller& poller = *pair.left_state->pollers[0];
  EXPECT_EQ(poller.turn(VirtualPair::now()), TurnOutcome::kIdle);
  ASSERT_TRUE(poller.lock().begin());
  EXPECT_EQ(poller.turn(VirtualPair::now()), TurnOutcome::kBusy);
  poller.lock().end();
  EXPECT_EQ(poller.turn(VirtualPair::now()), TurnOutcome::kIdle);
}

/// Turns the left device alone, a millisecond each, until its ACK timer has expired; how many turns that
/// took.
int turns_until_timeout(VirtualPair& pair) {
  for (int turns = 1; turns < 10'000; ++turns) {
    VirtualPair::advance(milliseconds(1));
    pair.turn(*pair.left_state);
    if (pair.counter(*pair.left_state, Counter::kAckTimeout) > 0) return turns;
  }
  return 0;
}

TEST(Poller, CountsOnlyTheTimeInWhichItWasTurned) {
  VirtualPair pair;
  Side left(pair.left, 1000);
  Side right(pair.right, 1000);
  connect(left, right);

  // The process stops for an hour right after the request has left: ten turns an hour apart are 50 ms of
  // attention.
  left.post_write(right, 1000);
  pair.turn(*pair.left_state);
  for (int i = 0; i < 10; ++i) {
    VirtualPair::advance(seconds(3600));
    pair.turn(*pair.left_state);
  }
  EXPECT_EQ(pair.counter(*pair.left_state, Counter::kAckTimeout), 0u);
  EXPECT_EQ(pair.counter(*pair.left_state, Counter::kRetransmittedPackets), 1u) << "as a probe";
  EXPECT_EQ(pair.counter(*pair.left_state, Counter::kUnattendedMs), 10u * 3600 * 1000)
      << "told, all the same";

  pair.settle();
  const auto completion = left.look();
  ASSERT_TRUE(completion);
  EXPECT_EQ(completion->status, queue::CompletionStatus::kSuccess);

  // A poller that is turned all the time does lose its patience.
  left.post_write(right, 1000);
  EXPECT_GT(turns_until_timeout(pair), 60);
}

TEST(Poller, LooksAtWhatArrivedBeforeItsTimers) {
  int patience = 0;
  {
    VirtualPair pair;
    Side left(pair.left, 1000);
    Side right(pair.right, 1000);
    connect(left, right);
    left.post_write(right, 1000);
    pair.turn(*pair.left_state);
    patience = turns_until_timeout(pair);
    ASSERT_GT(patience, 0);
  }
  VirtualPair pair;
  Side left(pair.left, 1000);
  Side right(pair.right, 1000);
  connect(left, right);
  left.post_write(right, 1000);
  pair.turn(*pair.left_state);
  for (int i = 1; i < patience; ++i) {
    VirtualPair::advance(milliseconds(1));
    pair.turn(*pair.left_state);
  }
  pair.turn(*pair.right_state);  // the answer waits at the port when the timer comes due
  VirtualPair::advance(milliseconds(1));
  pair.turn(*pair.left_state);
  EXPECT_EQ(pair.counter(*pair.left_state, Counter::kAckTimeout), 0u);
  ASSERT_TRUE(left.look());
}

class HandOff : public testing::TestWithParam<std::string_view> {};

TEST_P(HandOff, BringsPacketsToThePollerThatOwnsTheirQueuePair) {
  VirtualPair pair({.pollers = 2, .right_arguments = std::string(GetParam())});
  constexpr size_t kPairs = 8;
  std::vector<std::unique_ptr<Side>> lefts;
  std::vector<std::unique_ptr<Side>> rights;
  for (size_t i = 0; i < kPairs; ++i) {
    lefts.push_back(std::make_unique<Side>(pair.left, 20'000));
    rights.push_back(std::make_unique<Side>(pair.right, 20'000));
    connect(*lefts[i], *rights[i]);
    fill(lefts[i]->buffer(), i);
    lefts[i]->post_write(*rights[i], 20'000, i);
  }
  std::set<Poller*> owners;
  for (const auto& side : rights) owners.insert(&static_cast<PollerQp&>(side->queue_pair()).poller());
  EXPECT_EQ(owners.size(), 2u);

  std::vector<bool> done(kPairs);
  for (int i = 0; i < 100'000 && std::ranges::count(done, true) < static_cast<ptrdiff_t>(kPairs); ++i) {
    VirtualPair::advance(microseconds(20));
    pair.turn_all();
    for (size_t k = 0; k < kPairs; ++k) {
      const auto completion = lefts[k]->look();
      if (!completion) continue;
      EXPECT_FALSE(done[k]);
      EXPECT_EQ(completion->status, queue::CompletionStatus::kSuccess);
      EXPECT_EQ(lefts[k]->buffer(), rights[k]->buffer());
      done[k] = true;
    }
  }
  EXPECT_EQ(std::ranges::count(done, true), static_cast<ptrdiff_t>(kPairs));
  EXPECT_GT(pair.counter(*pair.right_state, Counter::kRxHandedOver), 0u);
  EXPECT_EQ(pair.counter(*pair.right_state, Counter::kDropUnknownQp), 0u);
}

INSTANTIATE_TEST_SUITE_P(Steering, HandOff, testing::Values("", ",steer=round_robin"));

TEST(Poller, KeepsQueuePairsWithOneCompletionQueueTogether) {
  VirtualPair pair({.pollers = 2});
  auto completions = pair.left->create_completion_queue({.depth = 16});
  const DomainId domain = *pair.left->allocate_domain();
  std::set<Poller*> owners;
  std::vector<QpSlot*> queue_pairs;
  for (int i = 0; i < 6; ++i) {
    queue_pairs.push_back(*pair.left->create_queue_pair({.domain = domain,
                                                         .send_depth = 4,
                                                         .receive_depth = 4,
                                                         .send_completions = completions.get(),
                                                         .receive_completions = completions.get()}));
    owners.insert(&static_cast<PollerQp*>(queue_pairs.back())->poller());
  }
  EXPECT_EQ(owners.size(), 1u);
  EXPECT_EQ(std::popcount(completions->lanes_used()), 1);
  for (QpSlot* queue_pair : queue_pairs) pair.left->destroy_queue_pair(*queue_pair);
}

TEST(Poller, LoopsFramesToItsOwnAddress) {
  VirtualPair pair;
  Side one(pair.left, 50'000);
  Side other(pair.left, 50'000);
  connect(one, other);
  fill(one.buffer(), 3);
  one.post_write(other, 50'000);
  pair.settle();
  ASSERT_TRUE(one.look());
  EXPECT_EQ(one.buffer(), other.buffer());

  // A queue pair that is connected to itself.
  Side self(pair.left, 3000);
  ASSERT_EQ(self.connect(self), 0);
  self.post_receive(3000, 1);
  self.post_send(2500, 2);
  pair.settle();
  std::set<uint64_t> completed;
  while (const auto completion = self.look()) {
    EXPECT_EQ(completion->status, queue::CompletionStatus::kSuccess);
    completed.insert(completion->wr_id);
  }
  EXPECT_EQ(completed, (std::set<uint64_t>{1, 2}));
  EXPECT_EQ(pair.counter(*pair.right_state, Counter::kRxFrames), 0u);
}

TEST(Poller, GivesTheLoopedFramesBackWhenItGoes) {
  VirtualPair pair;
  Side one(pair.left, 50'000);
  Side other(pair.left, 50'000);
  connect(one, other);
  one.post_write(other, 50'000);
  pair.turn(*pair.left_state);  // frames are in the loop now, and stay there
}

class EndOfAQueuePair : public testing::TestWithParam<std::optional<qp::State>> {};

/// The last message is received while other queue pairs use up all frames of the turn. The call that then
/// ends the queue pair has seen a completion, and the peer must hear of it.
TEST_P(EndOfAQueuePair, AcknowledgesWhatWasReceived) {
  constexpr size_t kBusy = 4;
  VirtualPair pair;
  std::vector<std::unique_ptr<Side>> lefts;
  std::vector<std::unique_ptr<Side>> rights;
  for (size_t i = 0; i <= kBusy; ++i) {
    lefts.push_back(std::make_unique<Side>(pair.left, 60'000));
    rights.push_back(std::make_unique<Side>(pair.right, 60'000));
    connect(*lefts[i], *rights[i]);
  }
  rights[kBusy]->post_receive(100);
  lefts[kBusy]->post_send(100, 7);
  pair.turn(*pair.left_state);
  for (size_t i = 0; i < kBusy; ++i) rights[i]->post_write(*lefts[i], 60'000);
  pair.turn(*pair.right_state);
  ASSERT_TRUE(rights[kBusy]->look());
  pair.turn(*pair.left_state);
  ASSERT_FALSE(lefts[kBusy]->look()) << "the acknowledgement had room in that turn";

  if (GetParam()) {
    ASSERT_EQ(
        pair.right->modify_queue_pair(rights[kBusy]->queue_pair(), {.state = *GetParam()}, qp::kMaskState),
        0);
  } else {
    rights[kBusy]->disconnect();
  }
  pair.settle();
  const auto completion = lefts[kBusy]->look();
  ASSERT_TRUE(completion);
  EXPECT_EQ(completion->status, queue::CompletionStatus::kSuccess);
  EXPECT_EQ(pair.counter(*pair.left_state, Counter::kAckTimeout), 0u);
}

INSTANTIATE_TEST_SUITE_P(Ways, EndOfAQueuePair,
                         testing::Values(std::nullopt, qp::State::kErr, qp::State::kReset));

TEST(Poller, RunsCommandsForOtherThreads) {
  VirtualPair pair;
  Poller& poller = *pair.left_state->pollers[0];
  const TurnLock* turning = nullptr;
  EXPECT_TRUE(poller.run([&](qp::Turn&) { turning = turning_on_this_thread; }));
  EXPECT_EQ(turning, &poller.lock());
  EXPECT_EQ(turning_on_this_thread, nullptr);

  // More threads than the command ring has room for at once, while another thread turns the poller as well.
  std::atomic<bool> stop = false;
  std::thread turner([&] {
    while (!stop) poller.turn(VirtualPair::now());
  });
  constexpr int kThreads = 4;
  constexpr int kCommands = 500;
  int runs = 0;  // no atomic: turns are exclusive
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (int k = 0; k < kCommands; ++k) EXPECT_TRUE(poller.run([&](qp::Turn&) { ++runs; }));
    });
  }
  for (std::thread& thread : threads) thread.join();
  stop = true;
  turner.join();
  EXPECT_EQ(runs, kThreads * kCommands);
}

TEST(Poller, RefusesEverythingOnceClosed) {
  VirtualPair pair;
  Poller& poller = *pair.left_state->pollers[0];
  ASSERT_TRUE(poller.close(milliseconds(1)));
  EXPECT_FALSE(poller.run([](qp::Turn&) { FAIL(); }));
  EXPECT_EQ(poller.turn(VirtualPair::now()), TurnOutcome::kBusy);
}

TEST(QueuePairNumbers, RestBeforeTheyAreUsedAgain) {
  constexpr uint32_t kNumbers = 64;
  constexpr uint32_t kFirst = QueuePairTable::first_max(kNumbers);
  QueuePairTable table({.numbers = kNumbers, .first = kFirst});
  Instant now{};
  std::vector<QpNumber> numbers;
  while (const auto number = table.allocate(now)) numbers.push_back(*number);
  ASSERT_EQ(numbers.size(), kNumbers - 1);
  EXPECT_EQ(std::ranges::min(numbers).value, kFirst);
  EXPECT_EQ(std::ranges::max(numbers).value, QpNumber::kMask - 1);  // the one behind it is a group's
  for (const uint32_t number : {0u, 1u, kFirst - 1, QpNumber::kMask})
    EXPECT_EQ(table.find({number}), nullptr);
  EXPECT_EQ(std::set<QpNumber>(numbers.begin(), numbers.end()).size(), numbers.size());

  table.give_back(numbers[7], now);
  table.give_back(numbers[3], now + milliseconds(1));
  now = now + QueuePairTable::kRest - nanoseconds(1);
  EXPECT_FALSE(table.allocate(now));
  now = now + nanoseconds(1);
  EXPECT_EQ(table.allocate(now), numbers[7]);
  EXPECT_FALSE(table.allocate(now));
  EXPECT_EQ(table.allocate(now + milliseconds(1)), numbers[3]);
}

TEST(QueuePairNumbers, GiveNothingToALatePacket) {
  VirtualPair pair;
  auto left = std::make_unique<Side>(pair.left, 1000);
  auto right = std::make_unique<Side>(pair.right, 1000);
  connect(*left, *right);
  left->post_write(*right, 1000);
  right->disconnect();
  pair.turn(*pair.left_state);
  pair.turn(*pair.right_state);
  EXPECT_EQ(pair.counter(*pair.right_state, Counter::kDropUnknownQp), 1u);
}

TEST(Device, ChecksWhatItIsAskedFor) {
  VirtualPair pair;
  auto completions = pair.left->create_completion_queue({.depth = 16});
  const DomainId domain = *pair.left->allocate_domain();
  QueuePairOptions good{.domain = domain,
                        .send_depth = 4,
                        .receive_depth = 4,
                        .send_completions = completions.get(),
                        .receive_completions = completions.get()};
  const auto code_of = [&](auto change) {
    QueuePairOptions options = good;
    change(options);
    const auto result = pair.left->create_queue_pair(options);
    return result ? 0 : result.error().code;
  };
  EXPECT_EQ(code_of([](auto& o) { o.type = qp::Type::kXrcSend; }), EINVAL) << "it receives nothing";
  EXPECT_EQ(code_of([](auto& o) { o.type = qp::Type::kXrcReceive; }), EINVAL) << "it has a domain of its own";
  EXPECT_EQ(code_of([](auto& o) { o.domain = {999}; }), EINVAL);
  EXPECT_EQ(code_of([](auto& o) { o.send_completions = nullptr; }), EINVAL);
  EXPECT_EQ(code_of([](auto& o) { o.send_depth = Limits::kWorkRequests + 1; }), EINVAL);
  EXPECT_EQ(code_of([](auto& o) { o.receive_segments = Limits::kSegments + 1; }), EINVAL);
  EXPECT_EQ(code_of([](auto& o) { o.inline_bytes = Limits::kInlineBytes + 1; }), EINVAL);

  Side side(pair.left, 100);
  qp::Attributes attributes = pair.left->query_queue_pair(side.queue_pair());
  EXPECT_EQ(attributes.state, qp::State::kReset);
  attributes.state = qp::State::kRts;
  EXPECT_EQ(pair.left->modify_queue_pair(side.queue_pair(), attributes, qp::kMaskState), EINVAL);
}

TEST(Device, TellsThePosterOfTheErrorState) {
  VirtualPair pair;
  Side side(pair.left, 100);
  Side peer(pair.right, 100);
  connect(side, peer);
  side.post_receive(100, 1);
  qp::Attributes attributes;
  attributes.state = qp::State::kErr;
  ASSERT_EQ(pair.left->modify_queue_pair(side.queue_pair(), attributes, qp::kMaskState), 0);
  pair.settle();
  EXPECT_TRUE(side.queue_pair().in_error.load());
  side.post_receive(100, 2);
  pair.settle();
  for (const uint64_t wr_id : {1u, 2u}) {
    const auto completion = side.look();
    ASSERT_TRUE(completion);
    EXPECT_EQ(completion->status, queue::CompletionStatus::kFlushed);
    EXPECT_EQ(completion->wr_id, wr_id);
  }
  attributes.state = qp::State::kReset;
  ASSERT_EQ(pair.left->modify_queue_pair(side.queue_pair(), attributes, qp::kMaskState), 0);
  pair.settle();
  EXPECT_FALSE(side.queue_pair().in_error.load());
}

}  // namespace
}  // namespace uroce::engine
