#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <thread>
#include <vector>

#include "base/tables/grown_ring.h"
#include "base/threads/mpsc_ring.h"
#include "base/threads/spsc_ring.h"

namespace uroce {
namespace {

TEST(GrownRing, ElementsStayAtTheirPositionsWhenItGrows) {
  GrownRing<uint32_t> ring;
  EXPECT_EQ(ring.size(), 0u);
  ASSERT_TRUE(ring.grow(3, 0, 0));
  EXPECT_EQ(ring.size(), 4u);
  // Around the end of the ring, and of the positions.
  uint32_t begin = UINT32_MAX - 1;
  uint32_t end = begin;
  for (const uint32_t size : {4u, 2u, 5u, 8u, 100u}) {
    ASSERT_TRUE(ring.grow(size, begin, end));
    for (uint32_t i = begin; i != end; ++i) ASSERT_EQ(ring[i], i) << size;
    for (; end - begin < ring.size(); ++end) ring[end] = end;
    for (uint32_t i = begin; i != end; ++i) ASSERT_EQ(ring[i], i) << size;
    ++begin;
  }
  EXPECT_EQ(ring.size(), 128u);
}

TEST(SpscRing, HoldsItsCapacityAndNoMore) {
  SpscRing<int> ring(4);
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(ring.push(i));
  EXPECT_FALSE(ring.push(4));
  int value = -1;
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(ring.pop(value));
    EXPECT_EQ(value, i);
  }
  EXPECT_FALSE(ring.pop(value));
  EXPECT_TRUE(ring.empty());
}

TEST(SpscRing, TakesOfABurstWhatThereIsRoomForAndGivesWhatThereIs) {
  SpscRing<size_t> ring(8);
  size_t pushed = 0;
  size_t popped = 0;
  const auto push = [&](size_t count) {
    const size_t taken = ring.push_burst(count, [&](size_t i) { return pushed + i; });
    pushed += taken;
    return taken;
  };
  const auto pop = [&](size_t count) {
    const size_t given = ring.pop_burst(count, [&](size_t i, size_t value) { EXPECT_EQ(value, popped + i); });
    popped += given;
    return given;
  };
  // Round the end of the slots at each place.
  for (size_t at = 0; at < 8; ++at) {
    EXPECT_EQ(push(0), 0u);
    EXPECT_EQ(pop(8), 0u);
    EXPECT_EQ(push(5), 5u);
    EXPECT_EQ(pop(2), 2u);
    EXPECT_EQ(push(6), 5u) << "three and five are eight";
    EXPECT_EQ(push(1), 0u);
    EXPECT_EQ(pop(7), 7u);
    EXPECT_EQ(pop(7), 1u);
    EXPECT_TRUE(ring.empty());
    EXPECT_EQ(push(1), 1u);
    EXPECT_EQ(pop(0), 0u);
    EXPECT_EQ(pop(1), 1u);
  }
}

TEST(SpscRing, KeepsOrderOfBurstsBetweenThreads) {
  constexpr size_t kCount = 100'000;
  SpscRing<size_t> ring(64);
  std::thread producer([&] {
    for (size_t i = 0; i < kCount;) {
      const size_t taken =
          ring.push_burst(std::min<size_t>(i % 7 + 1, kCount - i), [i](size_t number) { return i + number; });
      if (taken == 0) std::this_thread::yield();
      i += taken;
    }
  });
  for (size_t expected = 0; expected < kCount;) {
    const size_t given = ring.pop_burst(
        expected % 5 + 1, [expected](size_t number, size_t value) { ASSERT_EQ(value, expected + number); });
    if (given == 0) std::this_thread::yield();
    expected += given;
  }
  producer.join();
}

TEST(SpscRing, KeepsOrderBetweenThreads) {
  constexpr uint64_t kCount = 100'000;
  SpscRing<uint64_t> ring(64);
  std::thread producer([&] {
    for (uint64_t i = 0; i < kCount;) {
      if (ring.push(i)) {
        ++i;
      } else {
        std::this_thread::yield();
      }
    }
  });
  for (uint64_t expected = 0; expected < kCount;) {
    uint64_t value = 0;
    if (!ring.pop(value)) {
      std::this_thread::yield();
      continue;
    }
    ASSERT_EQ(value, expected++);
  }
  producer.join();
}

TEST(MpscRing, HoldsItsCapacityAndNoMore) {
  MpscRing<int> ring(4);
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(ring.push(i));
  EXPECT_FALSE(ring.push(4));
  int value = -1;
  EXPECT_TRUE(ring.pop(value));
  EXPECT_TRUE(ring.push(4));
  for (int i = 1; i <= 4; ++i) {
    ASSERT_TRUE(ring.pop(value));
    EXPECT_EQ(value, i);
  }
  EXPECT_FALSE(ring.pop(value));
}

TEST(MpscRing, LosesNothingAndKeepsEachProducersOrder) {
  constexpr uint32_t kProducers = 3;
  constexpr uint32_t kCount = 30'000;
  MpscRing<uint64_t> ring(64);
  std::vector<std::thread> producers;
  for (uint64_t p = 0; p < kProducers; ++p) {
    producers.emplace_back([&ring, p] {
      for (uint64_t i = 0; i < kCount;) {
        if (ring.push(p << 32 | i)) {
          ++i;
        } else {
          std::this_thread::yield();
        }
      }
    });
  }
  std::array<uint64_t, kProducers> next{};
  for (uint32_t received = 0; received < kProducers * kCount;) {
    uint64_t value = 0;
    if (!ring.pop(value)) {
      std::this_thread::yield();
      continue;
    }
    ASSERT_EQ(value & 0xFFFFFFFF, next[value >> 32]++);
    ++received;
  }
  for (std::thread& producer : producers) producer.join();
}

}  // namespace
}  // namespace uroce
