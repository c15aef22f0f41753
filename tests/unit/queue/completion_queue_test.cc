#include "queue/completion_queue.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <thread>
#include <vector>

namespace uroce::queue {
namespace {

struct Listener : CompletionListener {
  std::atomic<int> events{0};
  void completed(CompletionQueue&) override { ++events; }
};

Completion numbered(uint64_t id) { return {.wr_id = id}; }

std::vector<uint64_t> poll_ids(CompletionQueue& queue, size_t most) {
  std::vector<Completion> completions(most);
  completions.resize(queue.poll(completions));
  std::vector<uint64_t> ids;
  for (const Completion& completion : completions) ids.push_back(completion.wr_id);
  return ids;
}

TEST(CompletionQueue, ShowsNothingBeforePublish) {
  CompletionQueue queue({.depth = 4});
  queue.push(0, numbered(1));
  EXPECT_TRUE(poll_ids(queue, 4).empty());
  EXPECT_TRUE(queue.empty());
  queue.publish(0);
  EXPECT_FALSE(queue.empty());
  EXPECT_EQ(poll_ids(queue, 4), std::vector<uint64_t>{1});
}

TEST(CompletionQueue, DepthIsExactAndOverrunIsRemembered) {
  CompletionQueue queue({.depth = 1});
  EXPECT_TRUE(queue.push(0, numbered(1)));
  queue.publish(0);
  EXPECT_EQ(poll_ids(queue, 8), std::vector<uint64_t>{1});
  EXPECT_TRUE(queue.push(0, numbered(2)));
  EXPECT_FALSE(queue.overrun());
  EXPECT_FALSE(queue.push(0, numbered(3)));
  EXPECT_TRUE(queue.overrun());
  queue.publish(0);
  EXPECT_EQ(poll_ids(queue, 8), std::vector<uint64_t>{2});
}

TEST(CompletionQueue, AnOverrunNotifiesAtOnceAndOnce) {
  struct Overruns final : OverrunListener {
    void overran(CompletionQueue&) override { ++count; }
    int count = 0;
  } overruns;
  CompletionQueue queue({.depth = 1, .lanes = 2, .overrun_listener = &overruns});
  EXPECT_TRUE(queue.push(0, numbered(1)));
  EXPECT_EQ(overruns.count, 0);
  EXPECT_FALSE(queue.push(0, numbered(2)));
  EXPECT_EQ(overruns.count, 1) << "before a poll";
  EXPECT_FALSE(queue.push(0, numbered(3)));
  EXPECT_TRUE(queue.push(1, numbered(4)));
  EXPECT_FALSE(queue.push(1, numbered(5)));
  queue.order_overrun();
  EXPECT_EQ(overruns.count, 1);
}

/// A queue pair has moved from the poller of lane 0 to that of lane 1.
TEST(CompletionQueue, ALaneFollowsAnother) {
  CompletionQueue queue({.depth = 16, .lanes = 3});
  // So that lane 1 is looked at first.
  queue.push(0, numbered(1));
  queue.publish(0);
  EXPECT_EQ(poll_ids(queue, 1), std::vector<uint64_t>{1});
  EXPECT_TRUE(poll_ids(queue, 0).empty());

  for (const uint64_t id : {10u, 11u, 12u}) queue.push(0, numbered(id));
  queue.push(1, numbered(20));
  queue.publish(0);
  queue.publish(1);
  ASSERT_TRUE(queue.may_follow(1));
  queue.follow(1, 0, queue.pushed(0));
  EXPECT_FALSE(queue.may_follow(1)) << "one at a time";
  queue.push(1, numbered(13));
  queue.publish(1);

  std::vector<uint64_t> all;
  for (int i = 0; i < 5; ++i) {
    const std::vector<uint64_t> one = poll_ids(queue, 1);
    ASSERT_EQ(one.size(), 1u) << "a poll finds something as long as anything is there";
    all.push_back(one[0]);
  }
  EXPECT_TRUE(queue.empty());
  std::erase(all, 20);  // of another queue pair
  EXPECT_EQ(all, (std::vector<uint64_t>{10, 11, 12, 13}));
  EXPECT_TRUE(queue.may_follow(1)) << "what it followed was polled";
}

TEST(CompletionQueue, OnePollTakesAllThatFollowsEachOther) {
  CompletionQueue queue({.depth = 16, .lanes = 3});
  // 2 -> 1 -> 0, which is looked at first.
  queue.push(2, numbered(1));
  queue.publish(2);
  queue.follow(1, 2, queue.pushed(2));
  queue.push(1, numbered(2));
  queue.publish(1);
  queue.follow(0, 1, queue.pushed(1));
  queue.push(0, numbered(3));
  queue.publish(0);
  EXPECT_EQ(poll_ids(queue, 8), (std::vector<uint64_t>{1, 2, 3})) << "a program may sleep after it";
  EXPECT_TRUE(queue.empty());
}

TEST(CompletionQueue, EveryLaneIsReadAndNoneStarves) {
  CompletionQueue queue({.depth = 8, .lanes = 2});
  for (uint64_t i = 0; i < 4; ++i) queue.push(0, numbered(i));
  for (uint64_t i = 10; i < 14; ++i) queue.push(1, numbered(i));
  queue.publish(0);
  queue.publish(1);
  std::vector<uint64_t> all = poll_ids(queue, 3);
  for (const uint64_t id : poll_ids(queue, 5)) all.push_back(id);
  EXPECT_EQ(all, (std::vector<uint64_t>{0, 1, 2, 3, 10, 11, 12, 13}));
}

TEST(CompletionQueue, TheCompletionsOfOneQueuePairAreTakenAwayAndTheOthersKeepTheirOrder) {
  CompletionQueue queue({.depth = 5, .lanes = 2});
  for (uint64_t id = 0; id < 3; ++id) queue.push(0, numbered(id));
  queue.publish(0);
  EXPECT_EQ(poll_ids(queue, 3).size(), 3U);
  // Round the end of the slots, on both lanes, and some of them not yet visible.
  for (uint64_t id = 10; id < 15; ++id) {
    queue.push(0, {.wr_id = id, .local = {static_cast<uint32_t>(id % 2)}});
    if (id < 13) queue.publish(0);
  }
  for (uint64_t id = 20; id < 24; ++id)
    queue.push(1, {.wr_id = id, .local = {static_cast<uint32_t>(id % 2)}});
  queue.publish(1);
  queue.remove({0});
  for (uint64_t id = 30; id < 32; ++id)
    EXPECT_TRUE(queue.push(0, {.wr_id = id, .local = {1}})) << "there is room";
  EXPECT_EQ(poll_ids(queue, 16), (std::vector<uint64_t>{21, 23, 11}));
  queue.publish(0);
  EXPECT_EQ(poll_ids(queue, 1), std::vector<uint64_t>{13});
  queue.remove({1});
  EXPECT_EQ(poll_ids(queue, 16), std::vector<uint64_t>{14});
}

TEST(CompletionQueue, AnArmedQueueNotifiesOnce) {
  Listener listener;
  CompletionQueue queue({.depth = 8, .listener = &listener});
  queue.push(0, numbered(1));
  queue.publish(0);
  EXPECT_EQ(listener.events, 0);
  queue.arm(false);
  queue.push(0, numbered(2));
  queue.publish(0);
  queue.push(0, numbered(3));
  queue.publish(0);
  EXPECT_EQ(listener.events, 1);
}

TEST(CompletionQueue, WhoArmsAndLeavesSomethingIsReminded) {
  Listener listener;
  CompletionQueue queue({.depth = 8, .listener = &listener});
  for (uint64_t i = 0; i < 3; ++i) queue.push(0, numbered(i));
  queue.publish(0);
  poll_ids(queue, 1);
  queue.remind();
  EXPECT_EQ(listener.events, 0) << "not armed";
  queue.arm(false);
  poll_ids(queue, 1);
  queue.remind();
  EXPECT_EQ(listener.events, 1);
  queue.remind();
  EXPECT_EQ(listener.events, 1) << "once for each arming";
  queue.arm(false);
  poll_ids(queue, 1);
  queue.remind();
  EXPECT_EQ(listener.events, 1) << "nothing is left";
  queue.push(0, numbered(3));
  queue.publish(0);
  EXPECT_EQ(listener.events, 2) << "it is still armed";
}

TEST(CompletionQueue, SolicitedOnlyWaitsForASolicitedOrFailedCompletion) {
  Listener listener;
  CompletionQueue queue({.depth = 8, .listener = &listener});
  queue.arm(true);
  queue.push(0, numbered(1));
  queue.publish(0);
  EXPECT_EQ(listener.events, 0);
  queue.push(0, {.wr_id = 2, .solicited = true});
  queue.publish(0);
  EXPECT_EQ(listener.events, 1);

  queue.arm(true);
  queue.push(0, {.wr_id = 3, .status = CompletionStatus::kFlushed});
  queue.publish(0);
  EXPECT_EQ(listener.events, 2);
}

TEST(CompletionQueue, ArmingForAnyIsNotWeakened) {
  Listener listener;
  CompletionQueue queue({.depth = 8, .listener = &listener});
  queue.arm(false);
  queue.arm(true);
  queue.push(0, numbered(1));
  queue.publish(0);
  EXPECT_EQ(listener.events, 1);
}

TEST(CompletionQueue, ArmThenPollLosesNoEvent) {
  constexpr uint64_t kCount = 50'000;
  Listener listener;
  CompletionQueue queue({.depth = 4, .listener = &listener});
  std::atomic<uint64_t> polled{0};
  std::thread poller([&] {
    for (uint64_t i = 0; i < kCount;) {
      if (i - polled.load() >= 4) {
        std::this_thread::yield();
        continue;
      }
      queue.push(0, numbered(i++));
      queue.publish(0);
    }
  });
  int events_seen = 0;
  while (polled < kCount) {
    queue.arm(false);
    const size_t count = poll_ids(queue, 4).size();
    polled += count;
    if (count > 0) continue;
    // Nothing was there after arming, so the next completion must raise an event.
    while (listener.events == events_seen) std::this_thread::yield();
    events_seen = listener.events;
  }
  poller.join();
}

TEST(CompletionBatch, PublishesEveryQueueItTouchedOnce) {
  CompletionQueue first({.depth = 4});
  CompletionQueue second({.depth = 4});
  CompletionBatch batch(0);
  batch.push(first, numbered(1));
  batch.push(second, numbered(2));
  batch.push(first, numbered(3));
  EXPECT_TRUE(poll_ids(first, 4).empty());
  batch.publish_all();
  EXPECT_TRUE(batch.empty());
  EXPECT_EQ(poll_ids(first, 4), (std::vector<uint64_t>{1, 3}));
  EXPECT_EQ(poll_ids(second, 4), std::vector<uint64_t>{2});
}

TEST(CompletionBatch, SaysWhenThereIsNoRoomForTwoMoreQueues) {
  std::vector<std::unique_ptr<CompletionQueue>> queues;
  CompletionBatch batch(0);
  while (!batch.full()) {
    queues.push_back(std::make_unique<CompletionQueue>(CompletionQueue::Options{.depth = 1}));
    batch.push(*queues.back(), numbered(1));
  }
  EXPECT_EQ(queues.size(), CompletionBatch::kQueuesMax - 1);
  batch.publish_all();
  EXPECT_FALSE(batch.full());
}

TEST(CompletionBatch, TakesBackWhatIsNotPublishedYet) {
  CompletionQueue queue({.depth = 4});
  CompletionBatch batch(0);
  for (uint64_t i = 1; i <= 3; ++i) batch.push(queue, numbered(i));
  batch.publish_all();
  EXPECT_EQ(poll_ids(queue, 4).size(), 3u);
  batch.push(queue, numbered(4));
  const uint32_t from = batch.position(queue);
  batch.push(queue, numbered(5));  // these two lie across the end of the ring
  batch.push(queue, numbered(6));
  std::vector<uint64_t> seen;
  batch.revise(queue, from, [&](Completion& completion) {
    seen.push_back(completion.wr_id);
    completion.wr_id += 10;
  });
  EXPECT_EQ(seen, (std::vector<uint64_t>{5, 6}));
  batch.publish_all();
  EXPECT_EQ(poll_ids(queue, 4), (std::vector<uint64_t>{4, 15, 16}));
}

/// What is taken back has failed: that is news also for threads that wait for solicited completions only.
TEST(CompletionBatch, TellsWaitersOfWhatWasTakenBack) {
  Listener listener;
  CompletionQueue queue({.depth = 4, .listener = &listener});
  CompletionBatch batch(0);
  queue.arm(true);
  batch.push(queue, numbered(1));
  batch.publish_all();
  EXPECT_EQ(listener.events, 0);
  const uint32_t from = batch.position(queue);
  batch.push(queue, numbered(2));
  batch.revise(queue, from, [](Completion& c) { c.status = CompletionStatus::kFlushed; });
  batch.publish_all();
  EXPECT_EQ(listener.events, 1);
}

TEST(CompletionBatch, ACompletionMayBeAddedToInItsSlot) {
  Listener listener;
  CompletionQueue queue({.depth = 2, .listener = &listener});
  CompletionBatch batch(0);
  batch.set_time(Instant{5});
  queue.arm(true);
  for (uint64_t id = 1; id <= 2; ++id) {
    Completion* const slot = batch.push(queue, {.solicited = id == 2});
    ASSERT_NE(slot, nullptr);
    slot->wr_id = id;
  }
  EXPECT_EQ(batch.push(queue, {}), nullptr);
  EXPECT_TRUE(queue.overrun());
  batch.publish_all();
  EXPECT_EQ(listener.events, 1) << "the second one was solicited";
  std::array<Completion, 2> completions;
  ASSERT_EQ(queue.poll(completions), 2u);
  EXPECT_EQ(completions[0].wr_id, 1u);
  EXPECT_EQ(completions[1].wr_id, 2u);
  EXPECT_EQ(completions[1].time.ns, 5);
  EXPECT_NE(batch.push(queue, {}), nullptr) << "there is room again";
}

bool resize(CompletionQueue& queue, uint32_t depth) {
  CompletionQueue::Slots slots = queue.slots_for(depth);
  return queue.resize(0, depth, slots);
}

TEST(CompletionQueue, GrowsAndShrinksWithWhatIsInIt) {
  CompletionQueue queue({.depth = 3});
  // The ring has come round before.
  for (uint64_t id = 0; id < 2; ++id) queue.push(0, numbered(100 + id));
  queue.publish(0);
  EXPECT_EQ(poll_ids(queue, 4).size(), 2u);

  for (uint64_t id = 0; id < 3; ++id) ASSERT_TRUE(queue.push(0, numbered(id)));
  queue.publish(0);
  ASSERT_TRUE(resize(queue, 6));
  EXPECT_EQ(queue.depth(), 6u);
  for (uint64_t id = 3; id < 6; ++id) ASSERT_TRUE(queue.push(0, numbered(id))) << id;
  EXPECT_FALSE(resize(queue, 5)) << "six wait, three of them unpublished";
  EXPECT_EQ(queue.depth(), 6u);
  queue.publish(0);
  EXPECT_EQ(poll_ids(queue, 4), (std::vector<uint64_t>{0, 1, 2, 3}));
  ASSERT_TRUE(resize(queue, 2));
  EXPECT_EQ(poll_ids(queue, 4), (std::vector<uint64_t>{4, 5}));
  EXPECT_FALSE(queue.overrun());
  for (uint64_t id = 6; id < 8; ++id) EXPECT_TRUE(queue.push(0, numbered(id)));
  EXPECT_FALSE(queue.push(0, numbered(8)));
}

TEST(CompletionBatch, SaysWhenACompletionWasPushed) {
  CompletionQueue queue({.depth = 2});
  CompletionBatch batch(0);
  batch.set_time(Instant{7});
  batch.push(queue, numbered(1));
  batch.set_time(Instant{9});
  batch.push(queue, numbered(2));
  batch.publish_all();
  std::array<Completion, 2> completions;
  ASSERT_EQ(queue.poll(completions), 2u);
  EXPECT_EQ(completions[0].time.ns, 7);
  EXPECT_EQ(completions[1].time.ns, 9);
}

}  // namespace
}  // namespace uroce::queue
