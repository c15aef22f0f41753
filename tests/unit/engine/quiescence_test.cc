#include "engine/poller/quiescence.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <thread>

namespace uroce::engine {
namespace {

TEST(TurnLock, IsExclusiveAndMakesNoThreadWait) {
  TurnLock lock;
  ASSERT_TRUE(lock.begin());
  EXPECT_FALSE(lock.begin());
  lock.end();
  EXPECT_TRUE(lock.begin());
  lock.end();
}

TEST(TurnLock, HasEndedOnlyWhenWhatATurnLeftUnderWayHasEnded) {
  TurnLock lock;
  ASSERT_TRUE(lock.begin());
  const uint64_t first = lock.observe();
  lock.pause();
  EXPECT_TRUE(lock.paused());
  EXPECT_FALSE(lock.ended(first));
  const uint64_t between = lock.observe();
  ASSERT_TRUE(lock.begin());
  EXPECT_FALSE(lock.begin());
  EXPECT_FALSE(lock.paused());
  const uint64_t later = lock.observe();
  lock.pause();
  for (const uint64_t observed : {first, between, later}) EXPECT_FALSE(lock.ended(observed));
  ASSERT_TRUE(lock.begin());
  lock.end();
  for (const uint64_t observed : {first, between, later}) EXPECT_TRUE(lock.ended(observed));
  EXPECT_FALSE(lock.paused());
  EXPECT_TRUE(lock.ended(lock.observe()));
}

TEST(Quiescence, MakesTheTurnThatSomethingUnderWayWaitsFor) {
  TurnLock lock;
  Quiescence quiescence;
  int turns = 0;
  quiescence.watch(lock, [&] {
    ASSERT_TRUE(lock.begin());
    ++turns < 3 ? lock.pause() : lock.end();
  });
  ASSERT_TRUE(lock.begin());
  lock.pause();
  quiescence.wait();
  EXPECT_EQ(turns, 3);
  quiescence.wait();
  EXPECT_EQ(turns, 3);
}

TEST(Quiescence, DoesNotWaitForPollersBetweenTurns) {
  std::array<TurnLock, 3> locks;
  Quiescence quiescence;
  for (TurnLock& lock : locks) quiescence.watch(lock);
  quiescence.wait();
  ASSERT_TRUE(locks[1].begin());
  locks[1].end();
  quiescence.wait();
}

TEST(Quiescence, DoesNotWaitForAPollerThatIsShut) {
  TurnLock lock;
  Quiescence quiescence;
  quiescence.watch(lock);
  ASSERT_TRUE(lock.begin());
  lock.end_for_good();
  quiescence.wait();
  EXPECT_FALSE(lock.begin());
}

TEST(Quiescence, DoesNotWaitForTheTurnItIsCalledFrom) {
  TurnLock lock;
  Quiescence quiescence;
  quiescence.watch(lock);
  ASSERT_TRUE(lock.begin());
  turning_on_this_thread = &lock;
  quiescence.wait();
  turning_on_this_thread = nullptr;
  lock.end();
}

TEST(Quiescence, WaitsForATurnThatIsUnderWay) {
  TurnLock lock;
  Quiescence quiescence;
  quiescence.watch(lock);
  ASSERT_TRUE(lock.begin());
  std::atomic<bool> over = false;
  std::thread waiter([&] {
    quiescence.wait();
    EXPECT_TRUE(over.load());
  });
  for (int i = 0; i < 1000; ++i) std::this_thread::yield();
  over = true;
  lock.end();
  waiter.join();
}

TEST(Quiescence, IsEnoughToFreeWhatATurnMayRead) {
  // One thread turns and reads through a pointer, the other unpublishes, waits and scribbles. ThreadSanitizer
  // sees a missing order, everybody sees a wrong value.
  TurnLock lock;
  Quiescence quiescence;
  quiescence.watch(lock);
  std::atomic<int*> published = nullptr;
  std::atomic<bool> stop = false;
  std::thread reader([&] {
    while (!stop) {
      if (!lock.begin()) continue;
      if (const int* value = published.load(std::memory_order_acquire)) {
        EXPECT_EQ(*value, 42);
        EXPECT_EQ(*value, 42);
      }
      lock.end();
      std::this_thread::yield();
    }
  });
  for (int i = 0; i < 2'000; ++i) {
    auto value = std::make_unique<int>(42);
    published.store(value.get(), std::memory_order_release);
    std::this_thread::yield();
    published.store(nullptr, std::memory_order_release);
    quiescence.wait();
    *value = 0;
  }
  stop = true;
  reader.join();
}

}  // namespace
}  // namespace uroce::engine
