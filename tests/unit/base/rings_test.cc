#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <thread>
#include <vector>

#include "base/mpsc_ring.h"
#include "base/spsc_ring.h"

namespace uroce {
namespace {

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
