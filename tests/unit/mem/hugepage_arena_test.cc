#include "mem/regions/hugepage_arena.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "base/values/random.h"

namespace uroce::mem {
namespace {

constexpr DomainId kOurs{1};

TEST(BuddyBlocks, RandomBlocks_ExpectThemApartAndTheWholeBack) {
  const uint64_t seed = 17;
  SCOPED_TRACE("seed " + std::to_string(seed));
  Random random(seed);
  BuddyBlocks blocks;
  std::map<uint32_t, uint32_t> live;  // offset to bytes
  for (int round = 0; round < 20000; ++round) {
    if (random.chance(1, 2)) {
      const auto bytes = static_cast<uint32_t>(1 + random.below(1u << (1 + random.below(20))));
      const auto offset = blocks.allocate(bytes);
      if (!offset) continue;
      const uint32_t align = std::bit_ceil(std::max(bytes, BuddyBlocks::kBlockMin));
      ASSERT_EQ(*offset % align, 0u);
      const auto after = live.lower_bound(*offset);
      ASSERT_TRUE(after == live.end() || *offset + bytes <= after->first);
      if (after != live.begin()) {
        ASSERT_LE(std::prev(after)->first + std::prev(after)->second, *offset);
      }
      ASSERT_LE(*offset + bytes, BuddyBlocks::kBytes);
      live.emplace(*offset, bytes);
    } else if (!live.empty()) {
      const auto which = std::next(live.begin(), static_cast<ptrdiff_t>(random.below(live.size())));
      ASSERT_TRUE(blocks.free(which->first));
      ASSERT_FALSE(blocks.free(which->first)) << "twice";
      live.erase(which);
    }
    ASSERT_EQ(blocks.unused(), live.empty());
  }
  for (const auto& [offset, bytes] : live) ASSERT_TRUE(blocks.free(offset));
  EXPECT_TRUE(blocks.unused());
  EXPECT_TRUE(blocks.allocate(BuddyBlocks::kBlockMax).has_value());
  EXPECT_TRUE(blocks.allocate(BuddyBlocks::kBlockMax).has_value());
  EXPECT_FALSE(blocks.allocate(1).has_value());
  EXPECT_FALSE(blocks.free(64));
  EXPECT_FALSE(blocks.free(1));
  EXPECT_FALSE(blocks.free(BuddyBlocks::kBytes));
}

class HugepageArenaTest : public testing::Test {
 protected:
  static constexpr Access kRights = kLocalWrite | kRemoteWrite;

  HugepageArena::Block get(uint64_t bytes, Access access = kRights) {
    return arena_.allocate({.bytes = bytes, .access = access}).value();
  }
  int refusal(const HugepageArena::Request& request) {
    const auto made = arena_.allocate(request);
    return made.ok() ? 0 : made.error().code;
  }
  static int code(const Status& status) { return status.ok() ? 0 : status.error().code; }
  /// All bytes are there, by address, by key and on the bus.
  void expect_usable(const HugepageArena::Block& block, uint64_t bytes) {
    std::memset(block.address, 0xA5, bytes);
    const Binding binding = table_.resolve(block.keys.rkey, {kOurs, {}},
                                           reinterpret_cast<uint64_t>(block.address), bytes, kRemoteWrite);
    ASSERT_TRUE(binding.ok());
    EXPECT_EQ(binding.piece(0).data, block.address);
    EXPECT_EQ(bus_.translate(block.bus_address, bytes, kLocalWrite).data, block.address);
    EXPECT_NE(block.bus_address, reinterpret_cast<uint64_t>(block.address));
  }

  BusSpace bus_{{}};
  LockedMemory locked_;
  RegionTable table_{{.entries_max = 64, .locked_memory = &locked_, .bus_space = &bus_}};
  HugepageArena arena_{table_, kOurs};
};

TEST_F(HugepageArenaTest, SmallBlocks_ExpectThemToShareAChunk) {
  const auto a = get(100);
  const auto b = get(4096);
  const auto other = get(100, kLocalWrite);
  expect_usable(a, 100);
  expect_usable(b, 4096);
  EXPECT_EQ(reinterpret_cast<uint64_t>(b.address) % 4096, 0u);
  EXPECT_EQ(b.bus_address % 4096, 0u);
  EXPECT_EQ(a.keys.lkey, b.keys.lkey);
  EXPECT_NE(a.keys.lkey, other.keys.lkey) << "other rights";
  EXPECT_EQ(arena_.bytes_held(), 2 * PageMapping::kHugepageBytes);
  EXPECT_EQ(code(arena_.free(a.address)), 0);
  EXPECT_EQ(code(arena_.free(a.address)), EINVAL) << "twice";
  EXPECT_EQ(code(arena_.free(b.address + 64)), EINVAL);
  EXPECT_EQ(code(arena_.free(nullptr)), EINVAL);
  expect_usable(b, 4096);
  EXPECT_EQ(code(arena_.end()), EBUSY);
  EXPECT_EQ(code(arena_.free(b.address)), 0);
  EXPECT_EQ(code(arena_.free(other.address)), 0);
  EXPECT_EQ(arena_.bytes_held(), PageMapping::kHugepageBytes) << "one is kept";
  EXPECT_EQ(code(arena_.end()), 0);
  EXPECT_EQ(arena_.bytes_held(), 0u);
  EXPECT_EQ(table_.regions(), 0u);
  EXPECT_EQ(bus_.mappings(), 0u);
  EXPECT_EQ(locked_.bytes(), 0u);
}

TEST_F(HugepageArenaTest, LargeOrAlone_ExpectARegionOfTheirOwn) {
  const auto large = get(5 << 20);
  const auto alone = arena_.allocate({.bytes = 100, .access = kRights, .alone = true}).value();
  const auto small = get(100);
  expect_usable(large, 5 << 20);
  expect_usable(alone, 100);
  EXPECT_NE(alone.keys.lkey, small.keys.lkey);
  EXPECT_EQ(reinterpret_cast<uint64_t>(large.address) % PageMapping::kHugepageBytes, 0u);
  EXPECT_EQ(
      table_
          .resolve(alone.keys.rkey, {kOurs, {}}, reinterpret_cast<uint64_t>(alone.address), 101, kRemoteWrite)
          .fault(),
      Fault::kBounds);
  EXPECT_EQ(code(arena_.free(large.address + 64)), EINVAL);
  for (const auto& block : {large, alone, small}) EXPECT_EQ(code(arena_.free(block.address)), 0);
  EXPECT_EQ(code(arena_.end()), 0);
  EXPECT_EQ(table_.regions(), 0u);
}

TEST_F(HugepageArenaTest, PagesAndNode_ExpectThemTold) {
  const auto any = get(4096);
  EXPECT_TRUE(any.page_bytes == 4096 || any.page_bytes == PageMapping::kHugepageBytes);
  const auto here = arena_.allocate({.bytes = 4096, .access = kRights, .node = 0}).value();
  EXPECT_TRUE(here.node == 0 || here.node == kAnyNode) << here.node;
  const auto huge = arena_.allocate({.bytes = 4096, .access = kRights, .hugepages_only = true});
  if (huge.ok()) {
    EXPECT_EQ(huge->page_bytes, PageMapping::kHugepageBytes);
    EXPECT_EQ(code(arena_.free(huge->address)), 0);
  } else {
    EXPECT_EQ(huge.error().code, ENOMEM);
  }
  EXPECT_EQ(code(arena_.free(any.address)), 0);
  EXPECT_EQ(code(arena_.free(here.address)), 0);
  EXPECT_EQ(code(arena_.end()), 0);
}

TEST_F(HugepageArenaTest, Refused_ExpectTheErrnoAndNothingLeft) {
  EXPECT_EQ(refusal({.bytes = 0, .access = kRights}), EINVAL);
  EXPECT_EQ(refusal({.bytes = UINT64_MAX, .access = kRights}), EINVAL);
  EXPECT_EQ(refusal({.bytes = BusSpace::kLengthMax + 1, .access = kRights}), EINVAL);
  EXPECT_EQ(refusal({.bytes = 64, .access = kRemoteWrite}), EINVAL);
  EXPECT_EQ(refusal({.bytes = 64, .access = kOnDemand}), EOPNOTSUPP);
  EXPECT_EQ(refusal({.bytes = 64, .access = kZeroBased}), EINVAL);
  EXPECT_EQ(refusal({.bytes = 64, .access = kRights, .node = 1000}), EINVAL);
  EXPECT_EQ(refusal({.bytes = 64, .access = kRights, .node = 100000}), EINVAL);
  EXPECT_EQ(refusal({.bytes = 64, .access = kRights, .node = -2}), EINVAL);
  EXPECT_EQ(table_.regions(), 0u);
  EXPECT_EQ(bus_.mappings(), 0u);
  EXPECT_EQ(arena_.bytes_held(), 0u);
}

TEST_F(HugepageArenaTest, FreeWhatAnotherRegionCovers_ExpectEbusyUntilItDoesNot) {
  const auto block = arena_.allocate({.bytes = 4096, .access = kRights, .alone = true}).value();
  ASSERT_EQ(bus_.pin(block.bus_address, 4096, kLocalWrite).data, block.address);
  EXPECT_EQ(code(arena_.free(block.address)), EBUSY);
  EXPECT_EQ(code(arena_.end()), EBUSY);
  std::memset(block.address, 1, 4096);
  bus_.unpin(block.bus_address);
  EXPECT_EQ(code(arena_.free(block.address)), 0);
  EXPECT_EQ(code(arena_.free(block.address)), EINVAL);
  EXPECT_EQ(code(arena_.end()), 0);
}

TEST_F(HugepageArenaTest, ManyThreads_ExpectBlocksApart) {
  const uint64_t seed = 5;
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::vector<std::thread> threads;
  for (unsigned char t = 1; t <= 3; ++t) {
    threads.emplace_back([&, t] {
      Random random(seed + t);
      std::vector<std::pair<std::byte*, size_t>> mine;
      for (int round = 0; round < 2000; ++round) {
        if (mine.size() < 20 && random.chance(1, 2)) {
          const size_t bytes = 1 + random.below(20000);
          const auto block = arena_.allocate({.bytes = bytes, .access = kRights});
          ASSERT_TRUE(block.ok());
          std::memset(block->address, t, bytes);
          mine.emplace_back(block->address, bytes);
        } else if (!mine.empty()) {
          const auto [address, bytes] = mine.back();
          ASSERT_TRUE(std::all_of(address, address + bytes, [t](std::byte b) { return b == std::byte{t}; }));
          ASSERT_TRUE(arena_.free(address).ok());
          mine.pop_back();
        }
      }
      for (const auto& [address, bytes] : mine) ASSERT_TRUE(arena_.free(address).ok());
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(code(arena_.end()), 0);
  EXPECT_EQ(table_.regions(), 0u);
}

}  // namespace
}  // namespace uroce::mem
