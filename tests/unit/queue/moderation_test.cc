// When an armed completion queue that is moderated notifies: by count, by time, and never too late.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <thread>
#include <vector>

#include "queue/completion_queue.h"

namespace uroce::queue {
namespace {

constexpr Instant kStart{1'000'000};
constexpr Duration kPeriod = microseconds(100);

struct Listener : CompletionListener {
  std::atomic<int> events{0};
  void completed(CompletionQueue&) override { ++events; }
};

/// A queue of two lanes, and the pollers' batches for them.
struct Moderated : ::testing::Test {
  Moderated() { queue.moderate({.count = 4, .period = kPeriod}); }

  /// The poller of the lane makes a turn, with that many completions.
  void turn(size_t lane, Instant now, int completions, bool solicited = false) {
    CompletionBatch& batch = batches.at(lane);
    batch.set_time(now);
    for (int i = 0; i < completions; ++i) batch.push(queue, {.solicited = solicited});
    batch.publish_all();
    batch.notify_due();
  }
  int events() { return listener.events.exchange(0); }

  Listener listener;
  CompletionQueue queue{{.depth = 64, .lanes = 2, .listener = &listener}};
  std::array<CompletionBatch, 2> batches{CompletionBatch(0), CompletionBatch(1)};
};

TEST_F(Moderated, NotifiesOnceWhenThereAreAsMany) {
  queue.arm(false);
  for (int i = 0; i < 3; ++i) turn(0, kStart, 1);
  EXPECT_EQ(events(), 0);
  turn(0, kStart, 1);
  EXPECT_EQ(events(), 1);
  turn(0, kStart, 9);
  turn(0, kStart + seconds(1), 0);
  EXPECT_EQ(events(), 0) << "it was not armed again";
}

TEST_F(Moderated, NotifiesOfFewerWhenTheTimeIsOver) {
  queue.arm(false);
  EXPECT_EQ(batches[0].time_to_due(), Duration{INT64_MAX});
  turn(0, kStart, 1);
  EXPECT_EQ(batches[0].time_to_due(), kPeriod);
  turn(0, kStart + kPeriod - nanoseconds(1), 1);
  EXPECT_EQ(events(), 0);
  turn(0, kStart + kPeriod, 0);
  EXPECT_EQ(events(), 1) << "the first of them counts";
  EXPECT_EQ(batches[0].time_to_due(), Duration{INT64_MAX});
  turn(0, kStart + seconds(1), 1);
  EXPECT_EQ(events(), 0) << "it was not armed again";
}

TEST_F(Moderated, AnArmingThatHasEndedLeavesNothingBehind) {
  queue.arm(false);
  turn(0, kStart, 1);
  turn(0, kStart, 3);
  EXPECT_EQ(events(), 1);
  queue.arm(false);
  turn(0, kStart + kPeriod, 0);
  EXPECT_EQ(events(), 0) << "nothing has come since";
  turn(0, kStart + kPeriod, 1);
  turn(0, kStart + kPeriod + kPeriod - nanoseconds(1), 2);
  EXPECT_EQ(events(), 0);
  turn(0, kStart + kPeriod + kPeriod, 0);
  EXPECT_EQ(events(), 1);
}

TEST_F(Moderated, CountsWhatAllPollersBring) {
  queue.arm(false);
  turn(0, kStart, 2);
  turn(1, kStart + microseconds(50), 1);
  EXPECT_EQ(events(), 0);
  turn(1, kStart + microseconds(60), 1);
  EXPECT_EQ(events(), 1);
  turn(0, kStart + seconds(1), 0);
  turn(1, kStart + seconds(1), 0);
  EXPECT_EQ(events(), 0);
}

TEST_F(Moderated, EachPollerHasItsTime) {
  queue.arm(false);
  turn(0, kStart, 1);
  turn(1, kStart + microseconds(50), 1);
  turn(1, kStart + kPeriod, 0);
  EXPECT_EQ(events(), 0) << "the other one is asleep";
  turn(1, kStart + microseconds(50) + kPeriod, 0);
  EXPECT_EQ(events(), 1);
  turn(0, kStart + seconds(1), 0);
  EXPECT_EQ(events(), 0);
}

TEST_F(Moderated, SolicitedOnesAreCountedWhenItWasArmedForThem) {
  queue.arm(true);
  turn(0, kStart, 9);
  turn(0, kStart + seconds(1), 0);
  EXPECT_EQ(events(), 0);
  turn(0, kStart + seconds(1), 1, true);
  EXPECT_EQ(events(), 0);
  queue.arm(false);
  turn(0, kStart + seconds(1) + kPeriod, 0);
  EXPECT_EQ(events(), 1) << "armed for all, those count as well";
}

TEST_F(Moderated, WithoutACountOrATimeItNotifiesAtOnce) {
  for (const CompletionQueue::Moderation& none : {CompletionQueue::Moderation{},
                                                  {.count = 9, .period = {}},
                                                  {.count = 0, .period = kPeriod},
                                                  {.count = 1, .period = kPeriod}}) {
    queue.moderate(none);
    queue.arm(false);
    turn(0, kStart, 1);
    EXPECT_EQ(events(), 1) << none.count;
  }
}

TEST_F(Moderated, IsForgottenByThePollers) {
  auto other = std::make_unique<CompletionQueue>(CompletionQueue::Options{.depth = 8, .listener = &listener});
  other->moderate({.count = 4, .period = kPeriod});
  for (CompletionQueue* one : {&queue, other.get()}) {
    one->arm(false);
    batches[0].set_time(kStart);
    batches[0].push(*one, {});
    batches[0].publish_all();
  }
  batches[0].forget(*other);
  batches[0].forget(*other);
  other.reset();
  turn(0, kStart + kPeriod, 0);
  EXPECT_EQ(events(), 1) << "of the one that is left";
}

/// A thread that arms, finds nothing and waits for the event always gets one.
TEST(ModeratedUnderThreads, NoEventIsLost) {
  constexpr uint64_t kEach = 20'000;
  Listener listener;
  CompletionQueue queue({.depth = 32, .lanes = 2, .listener = &listener});
  queue.moderate({.count = 5, .period = nanoseconds(3000)});
  std::atomic<bool> over{false};
  const auto produce = [&](uint16_t lane) {
    CompletionBatch batch(lane);
    Instant now = kStart;
    for (uint64_t sent = 0; !over; now = now + nanoseconds(700)) {
      batch.set_time(now);
      for (int64_t i = 0; i < now.ns % 3 && sent < kEach; ++i) {
        if (!batch.push(queue, {})) break;
        ++sent;
      }
      batch.publish_all();
      batch.notify_due();
      std::this_thread::yield();
    }
  };
  std::thread first(produce, uint16_t{0});
  std::thread second(produce, uint16_t{1});
  std::vector<Completion> some(7);
  for (uint64_t got = 0; got < 2 * kEach;) {
    const int before = listener.events.load();
    queue.arm(false);
    uint64_t found = 0;
    while (const size_t count = queue.poll(some)) found += count;
    got += found;
    while (found == 0 && listener.events.load() == before) std::this_thread::yield();
  }
  over = true;
  first.join();
  second.join();
}

}  // namespace
}  // namespace uroce::queue
