#include "copy/guarded_atomic.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <thread>
#include <vector>

#include "tests/unit/copy/fault_catcher.h"
#include "tests/unit/copy/vanishing_memory.h"

namespace uroce::copy {
namespace {

using uroce::testing::FaultCatcher;
using uroce::testing::kVanishings;
using uroce::testing::VanishingMemory;

std::byte* bytes_of(uint64_t& word) { return reinterpret_cast<std::byte*>(&word); }

TEST(GuardedAtomic, CompareAndSwapSwapsOnlyWhatIsEqual) {
  uint64_t word = 7;
  uint64_t original = 0;
  EXPECT_TRUE(guarded_compare_swap(bytes_of(word), 8, 9, original));
  EXPECT_EQ(word, 7u);
  EXPECT_EQ(original, 7u);
  EXPECT_TRUE(guarded_compare_swap(bytes_of(word), 7, 9, original));
  EXPECT_EQ(word, 9u);
  EXPECT_EQ(original, 7u);
}

TEST(GuardedAtomic, FetchAndAddWraps) {
  uint64_t word = UINT64_MAX;
  uint64_t original = 0;
  EXPECT_TRUE(guarded_fetch_add(bytes_of(word), 3, original));
  EXPECT_EQ(word, 2u);
  EXPECT_EQ(original, UINT64_MAX);
}

/// What makes them IBV_ATOMIC_GLOB: a CPU's own atomics on the same word come between two of them, not into
/// one.
TEST(GuardedAtomic, NothingIsLostBesideAtomicsOfTheProgram) {
  constexpr uint64_t kTimes = 50'000;
  alignas(8) uint64_t word = 0;
  std::vector<std::jthread> threads;
  threads.emplace_back([&] {
    for (uint64_t i = 0; i < kTimes; ++i) std::atomic_ref(word).fetch_add(1);
  });
  threads.emplace_back([&] {
    uint64_t original = 0;
    for (uint64_t i = 0; i < kTimes; ++i) guarded_fetch_add(bytes_of(word), 1, original);
  });
  threads.emplace_back([&] {
    uint64_t seen = 0;
    uint64_t original = 0;
    for (uint64_t i = 0; i < kTimes; seen = original) {
      guarded_compare_swap(bytes_of(word), seen, seen + 1, original);
      if (original == seen) ++i;
    }
  });
  threads.clear();
  EXPECT_EQ(word, 3 * kTimes);
}

TEST(GuardedAtomic, MemoryThatIsGoneIsToldAndNotTouched) {
  const FaultCatcher catcher;
  for (const auto how : kVanishings) {
    SCOPED_TRACE(uroce::testing::to_string(how));
    const VanishingMemory memory(1);
    uint64_t original = 0;
    memory.vanish(how);
    EXPECT_FALSE(guarded_fetch_add(memory.data(), 1, original));
    EXPECT_FALSE(guarded_compare_swap(memory.data(), 0, 1, original));
    memory.come_back();
    EXPECT_TRUE(guarded_fetch_add(memory.data(), 1, original));
    EXPECT_EQ(original, 0u);
  }
}

}  // namespace
}  // namespace uroce::copy
