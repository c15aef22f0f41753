#include "mem/bus/bus_space.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <set>
#include <thread>
#include <vector>

#include "base/values/random.h"

namespace uroce::mem {
namespace {

/// Counts the grace periods; there are no readers in between.
class CountedGrace final : public GracePeriod {
 public:
  void wait() override { ++waits; }
  void begin(GraceTicket&) override {}
  bool over(GraceTicket&) override { return true; }
  int waits = 0;
};

/// Every test runs with and without an offset, which shows code that takes a bus address for something else.
class BusSpaceTest : public testing::TestWithParam<uint64_t> {
 protected:
  std::byte* at(size_t offset) { return memory_.data() + offset; }
  uint64_t map(size_t offset, size_t length, Direction direction = Direction::kBidirectional) {
    return space_.map(at(offset), length, direction).value();
  }
  int unmap(uint64_t address, uint64_t length, Direction direction = Direction::kBidirectional) {
    const BusRange range{address, length};
    const Status status = space_.unmap({&range, 1}, direction);
    return status.ok() ? 0 : status.error().code;
  }
  std::byte* look(uint64_t address, uint64_t length, Access needed = kLocalRead) {
    return space_.translate(address, length, needed).data;
  }

  std::vector<std::byte> memory_ = std::vector<std::byte>(1 << 20);
  CountedGrace grace_;
  BusSpace space_{{.offset = GetParam(), .grace_period = &grace_}};
};

TEST_P(BusSpaceTest, MapAndTranslate_ExpectTheBytesAndNothingBeyondThem) {
  const uint64_t bus = map(100, 5000);
  EXPECT_NE(bus, reinterpret_cast<uint64_t>(at(100)));
  EXPECT_EQ(look(bus, 5000), at(100));
  EXPECT_EQ(look(bus + 4999, 1), at(5099));
  EXPECT_EQ(look(bus + 5000, 0), at(5100));
  EXPECT_EQ(look(bus + 5000, 1), nullptr);
  EXPECT_EQ(look(bus + 1, 5000), nullptr);
  EXPECT_EQ(look(bus - 1, 1), nullptr);
  EXPECT_EQ(look(bus, UINT64_MAX), nullptr);
}

TEST_P(BusSpaceTest, NoBytesAtTheEndOfAFullSlot_ExpectThemThere) {
  const size_t page = 4096 - reinterpret_cast<uint64_t>(at(0)) % 4096;
  for (const size_t pages : {1U, 2U, 3U, 4U, 16U}) {
    const size_t length = pages * 4096;
    const uint64_t bus = map(page, length);
    EXPECT_EQ(look(bus + length, 0), at(page + length));
    EXPECT_EQ(look(bus + length, 1), nullptr);
    EXPECT_EQ(look(bus + length + 1, 0), nullptr);
    EXPECT_EQ(unmap(bus, length), 0);
    EXPECT_EQ(look(bus + length, 0), nullptr);
  }
}

TEST_P(BusSpaceTest, Map_ExpectThePlaceWithinThePageToBeKept) {
  for (const size_t offset : {size_t{0}, size_t{1}, size_t{4095}, size_t{5000}}) {
    const uint64_t place = (reinterpret_cast<uint64_t>(at(offset)) + GetParam()) % 4096;
    EXPECT_EQ(map(offset, 9000) % 4096, place);
  }
}

TEST_P(BusSpaceTest, VirtualAddressesAndWildOnes_ExpectNothing) {
  map(0, memory_.size());
  EXPECT_EQ(look(reinterpret_cast<uint64_t>(at(0)), 1), nullptr);
  Random random(1);
  for (int i = 0; i < 100000; ++i) EXPECT_EQ(look(random.next(), 1), nullptr);
  EXPECT_EQ(look(0, 1), nullptr);
  EXPECT_EQ(look(BusSpace::kError, 1), nullptr);
}

TEST_P(BusSpaceTest, TwoMappingsOfOneRange_ExpectTwoAddresses) {
  const uint64_t first = map(0, 4096);
  const uint64_t second = map(0, 4096);
  EXPECT_NE(first, second);
  EXPECT_EQ(unmap(first, 4096), 0);
  EXPECT_EQ(look(first, 1), nullptr);
  EXPECT_EQ(look(second, 1), at(0));
}

TEST_P(BusSpaceTest, Direction_ExpectOnlyWhatItAllows) {
  const uint64_t read_only = map(0, 100, Direction::kToDevice);
  EXPECT_NE(look(read_only, 1, kLocalRead), nullptr);
  EXPECT_EQ(look(read_only, 1, kLocalWrite), nullptr);
  const uint64_t write_only = map(0, 100, Direction::kFromDevice);
  EXPECT_EQ(look(write_only, 1, kLocalRead), nullptr);
  EXPECT_NE(look(write_only, 1, kLocalWrite), nullptr);
  const uint64_t both = map(0, 100);
  EXPECT_NE(look(both, 1, kLocalRead), nullptr);
  EXPECT_NE(look(both, 1, kLocalWrite), nullptr);
  EXPECT_TRUE(space_.covers(read_only + 1, 99, Direction::kToDevice));
  EXPECT_FALSE(space_.covers(read_only + 1, 100, Direction::kToDevice));
  EXPECT_FALSE(space_.covers(read_only, 1, Direction::kFromDevice));
  EXPECT_EQ(unmap(read_only, 100, Direction::kFromDevice), EINVAL);
  EXPECT_EQ(unmap(read_only, 100, Direction::kToDevice), 0);
}

TEST_P(BusSpaceTest, Unmap_ExpectItToBeGoneAfterAGracePeriod) {
  const uint64_t bus = map(0, 4096);
  EXPECT_EQ(unmap(bus, 4096), 0);
  EXPECT_EQ(grace_.waits, 1);
  EXPECT_EQ(look(bus, 1), nullptr);
  EXPECT_EQ(space_.mappings(), 0u);
}

TEST_P(BusSpaceTest, UnmapOfWhatIsNotAMapping_ExpectEinval) {
  const uint64_t bus = map(0, 8192);
  EXPECT_EQ(unmap(bus, 4096), EINVAL);
  EXPECT_EQ(unmap(bus + 1, 8191), EINVAL);
  EXPECT_EQ(unmap(0, 8192), EINVAL);
  EXPECT_EQ(unmap(reinterpret_cast<uint64_t>(at(0)), 8192), EINVAL);
  EXPECT_EQ(unmap(bus, 8192), 0);
  EXPECT_EQ(unmap(bus, 8192), EINVAL);
}

TEST_P(BusSpaceTest, UnmapOfManyWithOneWrong_ExpectNoneUnmapped) {
  const std::vector<BusRange> good = {{map(0, 100), 100}, {map(200, 100), 100}};
  std::vector<BusRange> bad = good;
  bad.push_back({good[0].address + 1, 99});
  EXPECT_EQ(space_.unmap(bad, Direction::kBidirectional).error().code, EINVAL);
  std::vector<BusRange> twice = good;
  twice.push_back(good[0]);
  EXPECT_EQ(space_.unmap(twice, Direction::kBidirectional).error().code, EINVAL);
  for (const BusRange& range : good) EXPECT_NE(look(range.address, range.length), nullptr);
  EXPECT_TRUE(space_.unmap(good, Direction::kBidirectional).ok());
  EXPECT_EQ(grace_.waits, 1);
  EXPECT_EQ(space_.mappings(), 0u);
}

TEST_P(BusSpaceTest, Pinned_ExpectEbusyUntilTheLastPinIsGone) {
  const uint64_t bus = map(0, 8192);
  EXPECT_EQ(space_.pin(bus + 4096, 100, kLocalWrite).data, at(4096));
  EXPECT_EQ(space_.pin(bus, 8192, kLocalRead).data, at(0));
  EXPECT_EQ(space_.pin(bus, 8193, kLocalRead).data, nullptr);
  EXPECT_EQ(unmap(bus, 8192), EBUSY);
  space_.unpin(bus);
  EXPECT_EQ(unmap(bus, 8192), EBUSY);
  EXPECT_EQ(look(bus, 8192), at(0));
  space_.unpin(bus + 4096);
  EXPECT_EQ(unmap(bus, 8192), 0);
  EXPECT_EQ(space_.pin(bus, 1, kLocalRead).data, nullptr);
}

/// What a region may have that lies in mappings of the three directions.
TEST_P(BusSpaceTest, PinForRights_ExpectWhatTheDirectionAllows) {
  const auto pinned = [&](Direction direction, Access access) -> std::optional<bool> {
    const uint64_t bus = space_.map(at(0), 64, direction).value();
    const BusSpace::Pinned found = space_.pin(bus, 64, access);
    if (found.data != nullptr) space_.unpin(bus);
    const BusRange range{bus, 64};
    EXPECT_TRUE(space_.unmap({&range, 1}, direction).ok()) << "what is refused is not pinned";
    return found.data != nullptr ? std::optional(found.readable) : std::nullopt;
  };
  constexpr std::optional<bool> kRefused;
  for (const Access reads : {Access(), kRemoteRead}) {
    EXPECT_EQ(pinned(Direction::kBidirectional, reads), true);
    EXPECT_EQ(pinned(Direction::kToDevice, reads), true);
    EXPECT_EQ(pinned(Direction::kFromDevice, reads), kRefused);
  }
  for (const Access writes : {kLocalWrite, kLocalWrite | kRemoteWrite, kLocalWrite | kRemoteAtomic}) {
    EXPECT_EQ(pinned(Direction::kBidirectional, writes), true);
    EXPECT_EQ(pinned(Direction::kToDevice, writes), kRefused);
    // An atomic tells what was there before.
    EXPECT_EQ(pinned(Direction::kFromDevice, writes),
              writes.any(kRemoteAtomic) ? kRefused : std::optional(false));
    EXPECT_EQ(pinned(Direction::kFromDevice, writes | kRemoteRead), kRefused);
  }
}

TEST_P(BusSpaceTest, BadMappings_ExpectEinval) {
  const auto refusal = [&](std::byte* address, uint64_t length) {
    return space_.map(address, length, Direction::kBidirectional).error().code;
  };
  EXPECT_EQ(refusal(at(0), 0), EINVAL);
  EXPECT_EQ(refusal(at(0), UINT64_MAX), EINVAL);
  EXPECT_EQ(refusal(at(0), BusSpace::kLengthMax + 1), EINVAL);
  EXPECT_EQ(refusal(reinterpret_cast<std::byte*>(UINT64_MAX - 10), 100), EINVAL);
}

TEST_P(BusSpaceTest, EverySize_ExpectItsEndsToBeWhereTheyAre) {
  // The memory behind them is never touched.
  const uint64_t start = 0x7000'0000'0123;
  for (int shift = 0; shift <= 46; ++shift) {
    for (const int64_t by : {-1, 0, 1}) {
      const uint64_t length = (uint64_t{1} << shift) + static_cast<uint64_t>(by);
      if (length == 0 || length > BusSpace::kLengthMax) continue;
      auto* memory = reinterpret_cast<std::byte*>(start);
      const uint64_t bus = space_.map(memory, length, Direction::kBidirectional).value();
      EXPECT_EQ(look(bus, length), memory) << length;
      EXPECT_EQ(look(bus + length - 1, 1), memory + length - 1) << length;
      EXPECT_EQ(look(bus + length, 1), nullptr) << length;
    }
  }
}

TEST_P(BusSpaceTest, AMillionSmallMappingsAtOnce_ExpectEachToBeItself) {
  constexpr size_t kMappings = 1'000'000;
  std::vector<uint64_t> all(kMappings);
  for (size_t i = 0; i < kMappings; ++i) all[i] = map(i, 16);
  EXPECT_EQ(space_.mappings(), kMappings);
  for (size_t i = 0; i < kMappings; ++i) ASSERT_EQ(look(all[i], 16), at(i));
  EXPECT_EQ(std::set(all.begin(), all.end()).size(), kMappings);
}

TEST_P(BusSpaceTest, AnAddressThatComesBack_ExpectAnotherGeneration) {
  // More than rest at once, so that slots are used again.
  std::set<uint64_t> seen;
  for (int i = 0; i < 5000; ++i) {
    const uint64_t bus = map(0, 64);
    EXPECT_TRUE(seen.insert(bus).second);
    ASSERT_EQ(unmap(bus, 64), 0);
  }
}

TEST_P(BusSpaceTest, ThreadsMapAndUnmapWhileOthersLook_ExpectNeverAnothersBytes) {
  constexpr int kRounds = 20000;
  std::atomic<uint64_t> shown{0};
  std::atomic<bool> done{false};
  std::atomic<int> wrong{0};
  std::thread reader([&] {
    while (!done.load()) {
      // Even rounds map the first half, odd ones the second; the length tells which it was.
      const uint64_t bus = shown.load();
      for (const size_t length : {size_t{64}, size_t{65}}) {
        std::byte* data = look(bus, length);
        wrong += data != nullptr && data != at(4096) && (data != at(0) || length == 65);
      }
      if (space_.pin(bus, 64, kLocalRead).data != nullptr) space_.unpin(bus);
    }
  });
  for (int i = 0; i < kRounds; ++i) {
    const size_t length = i % 2 == 0 ? 64 : 65;
    const uint64_t bus = map(i % 2 == 0 ? 0 : 4096, length);
    shown.store(bus);
    while (unmap(bus, length) == EBUSY) std::this_thread::yield();
  }
  done.store(true);
  reader.join();
  EXPECT_EQ(wrong.load(), 0);
  EXPECT_EQ(space_.mappings(), 0u);
}

INSTANTIATE_TEST_SUITE_P(Offsets, BusSpaceTest, testing::Values(0, uint64_t{1} << 44, 0x123456789));

}  // namespace
}  // namespace uroce::mem
