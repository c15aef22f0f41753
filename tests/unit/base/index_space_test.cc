#include "base/tables/index_space.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <fstream>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/values/random.h"

namespace uroce {
namespace {

bool zero(const std::byte* entry) {
  for (size_t i = 0; i < IndexSpace::kEntryBytes; ++i) {
    if (entry[i] != std::byte{0}) return false;
  }
  return true;
}

TEST(IndexSpace, FillsUpFromOneAndSaysWhenItIsFull) {
  for (const uint32_t capacity : {2u, 4u, 64u, 1024u, 1u << 17}) {
    IndexSpace space(capacity);
    EXPECT_EQ(space.capacity(), capacity);
    for (uint32_t expected = 1; expected < capacity; ++expected) {
      ASSERT_EQ(space.allocate(), expected);
      ASSERT_LT(expected, space.backed());
      ASSERT_TRUE(zero(space.at(expected)));
      std::memset(space.at(expected), 0xFF, IndexSpace::kEntryBytes);
    }
    EXPECT_EQ(space.allocate(), std::nullopt);
    EXPECT_EQ(space.in_use(), capacity - 1);
    EXPECT_EQ(space.backed(), capacity);
    EXPECT_TRUE(zero(space.at(0)));
  }
}

TEST(IndexSpace, TakesMemoryOnlyAsIndexesComeIntoUse) {
  IndexSpace space(1u << 24);
  EXPECT_EQ(space.backed(), 0u);
  EXPECT_FALSE(space.hugepages());
  ASSERT_TRUE(space.allocate());
  const uint32_t chunk = space.backed();
  EXPECT_LT(chunk, 1u << 16);
  const std::byte* first = space.at(1);
  while (space.backed() == chunk) ASSERT_TRUE(space.allocate());
  EXPECT_EQ(space.backed(), 2 * chunk);
  EXPECT_EQ(space.at(1), first);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(first) % IndexSpace::kEntryBytes, 0u);
}

TEST(IndexSpace, GivesFreedIndexesBackInTheOrderOfTheirFreeing) {
  IndexSpace space(8);
  for (int i = 0; i < 7; ++i) ASSERT_TRUE(space.allocate());
  for (const uint32_t index : {5u, 2u, 7u}) space.free(index);
  EXPECT_EQ(space.in_use(), 4u);
  EXPECT_EQ(space.allocate(), 5u);
  space.free(1);
  EXPECT_EQ(space.allocate(), 2u);
  EXPECT_EQ(space.allocate(), 7u);
  EXPECT_EQ(space.allocate(), 1u);
  EXPECT_EQ(space.allocate(), std::nullopt);
}

TEST(IndexSpace, LetsAFreedIndexRestWhileManyOthersDo) {
  constexpr size_t kRestingMin = 1024;
  IndexSpace space(1u << 16, IndexSpace::Pages::kHuge, {.resting_min = kRestingMin});
  const uint32_t first = *space.allocate();
  space.free(first);
  size_t others = 0;
  for (uint32_t index = *space.allocate(); index != first; index = *space.allocate()) {
    space.free(index);
    ++others;
  }
  EXPECT_GE(others, kRestingMin);
  EXPECT_LE(others, 2 * kRestingMin);
}

TEST(IndexSpace, RandomUseNeverHandsOutAnIndexTwice) {
  const uint64_t seed = 99;
  SCOPED_TRACE("seed " + std::to_string(seed));
  Random random(seed);
  IndexSpace space(4096);
  std::set<uint32_t> used;
  std::vector<uint32_t> order;
  for (int i = 0; i < 200000; ++i) {
    if (random.chance(random.chance(1, 2) ? 3 : 2, 5)) {
      const auto index = space.allocate();
      ASSERT_EQ(index.has_value(), used.size() < 4095);
      if (!index) continue;
      ASSERT_TRUE(used.insert(*index).second);
      order.push_back(*index);
    } else if (!order.empty()) {
      std::swap(order[random.below(order.size())], order.back());
      used.erase(order.back());
      space.free(order.back());
      order.pop_back();
    }
    ASSERT_EQ(space.in_use(), used.size());
  }
}

TEST(IndexSpace, ReadersMayLookAtAllThatIsBackedWhileItGrows) {
  IndexSpace space(1u << 18);
  std::atomic<bool> stop{false};
  uint64_t mismatches = 0;
  std::thread reader([&] {
    while (!stop.load()) {
      const uint32_t backed = space.backed();
      for (uint32_t index = 0; index < backed; index += 1021) {
        const uint32_t seen = __atomic_load_n(reinterpret_cast<uint32_t*>(space.at(index)), __ATOMIC_RELAXED);
        mismatches += seen != 0 && seen != index;
      }
    }
  });
  while (const auto index = space.allocate()) {
    __atomic_store_n(reinterpret_cast<uint32_t*>(space.at(*index)), *index, __ATOMIC_RELAXED);
  }
  stop.store(true);
  reader.join();
  EXPECT_EQ(mismatches, 0u);
}

/// Pages of 2 MiB that the kernel has to give, less those that are promised.
long free_hugepages() {
  const std::string folder = "/sys/kernel/mm/hugepages/hugepages-2048kB/";
  long free = 0;
  long reserved = 0;
  std::ifstream(folder + "free_hugepages") >> free;
  std::ifstream(folder + "resv_hugepages") >> reserved;
  return free - reserved;
}

/// Needs free hugepages; without them the other tests have shown the ordinary pages.
TEST(IndexSpace, UsesHugepagesWhereThereAreSome) {
  if (free_hugepages() <= 0) GTEST_SKIP() << "no free hugepage on this machine";
  IndexSpace space(1u << 24);
  ASSERT_TRUE(space.allocate());
  ASSERT_TRUE(space.hugepages());
  // Until they run out: then growth goes on in ordinary pages, and what was there stays.
  *space.at(1) = std::byte{42};
  for (uint32_t i = 0; i < 1u << 22 && space.hugepages(); ++i) {
    const auto index = space.allocate();
    ASSERT_TRUE(index);
    ASSERT_TRUE(zero(space.at(*index)));
    *space.at(*index) = std::byte{1};
  }
  EXPECT_EQ(*space.at(1), std::byte{42});
}

/// Needs free hugepages, or there are none that could be left alone.
TEST(IndexSpace, LeavesHugepagesAloneWhenItIsToldTo) {
  IndexSpace space(1u << 24, IndexSpace::Pages::kOrdinary);
  ASSERT_TRUE(space.allocate());
  EXPECT_FALSE(space.hugepages());
}

}  // namespace
}  // namespace uroce
