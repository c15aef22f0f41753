// Lists of pages: what can be posted, what a mapping is pinned for, and how lists are made of runs.
#include "mem/bus/page_list.h"

#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <string>
#include <vector>

#include "base/values/random.h"

namespace uroce::mem {
namespace {

constexpr uint64_t kPage = 4096;
constexpr uint8_t kShift = 12;

/// With and without something added to every bus address.
class PageListTest : public testing::TestWithParam<uint64_t> {
 protected:
  BusSpace bus{{.offset = GetParam()}};
  std::vector<std::byte> memory = std::vector<std::byte>(40 * kPage);
  std::byte* const first = memory.data() + (kPage - reinterpret_cast<uintptr_t>(memory.data()) % kPage);

  uint64_t map(std::byte* address, uint64_t length, Direction direction = Direction::kBidirectional) {
    return bus.map(address, length, direction).value();
  }
  int unmap(uint64_t address, uint64_t length) {
    const BusRange range{address, length};
    const Status status = bus.unmap({&range, 1}, Direction::kBidirectional);
    return status.ok() ? 0 : status.error().code;
  }
};

INSTANTIATE_TEST_SUITE_P(Offsets, PageListTest, testing::Values(0, uint64_t{7} << 21),
                         [](const auto& of) { return of.param == 0 ? "none" : "some"; });

TEST_P(PageListTest, PostPagesOfOneMapping_ExpectOnePinUntilTheyAreGivenBack) {
  const uint64_t bus_address = map(first, 4 * kPage);
  PageList list(bus, 8);
  for (uint32_t i = 0; i < 4; ++i) list.addresses()[i] = bus_address + i * kPage;

  ASSERT_EQ(list.post({4, kShift, 100, 4 * kPage - 100}, kLocalWrite), 0);
  EXPECT_TRUE(list.posted());
  EXPECT_TRUE(list.contiguous());
  EXPECT_EQ(list.pins().size(), 1u);
  ASSERT_EQ(list.pages().size(), 4u);
  for (uint32_t i = 0; i < 4; ++i) EXPECT_EQ(list.pages()[i], first + i * kPage);
  EXPECT_EQ(list.post({4, kShift, 0, kPage}, kLocalWrite), EBUSY);
  EXPECT_EQ(unmap(bus_address, 4 * kPage), EBUSY);

  list.give_back();
  EXPECT_FALSE(list.posted());
  EXPECT_EQ(unmap(bus_address, 4 * kPage), 0);
}

TEST_P(PageListTest, PostPagesOfSeveralMappings_ExpectEachOfThemPinned) {
  std::array<uint64_t, 3> buses{};
  PageList list(bus, 3);
  for (uint32_t i = 0; i < 3; ++i) {
    buses[i] = map(first + (2 - i) * kPage, kPage);
    list.addresses()[i] = buses[i];
  }
  ASSERT_EQ(list.post({3, kShift, 0, 3 * kPage}, {}), 0);
  EXPECT_FALSE(list.contiguous());
  EXPECT_EQ(list.pins().size(), 3u);
  for (const uint64_t address : buses) EXPECT_EQ(unmap(address, kPage), EBUSY);
  list.give_back();
  for (const uint64_t address : buses) EXPECT_EQ(unmap(address, kPage), 0);
}

/// Only the bytes that are covered need be mapped: not all of the first and last page.
TEST_P(PageListTest, PostWhatBeginsAndEndsWithinPages_ExpectTheRestNotLookedAt) {
  const uint64_t address = map(first + 1000, kPage);
  PageList list(bus, 4);
  list.addresses()[0] = address - 1000;
  list.addresses()[1] = address - 1000 + kPage;
  list.addresses()[2] = 12345;  // given, not needed
  ASSERT_EQ(list.post({3, kShift, 1000, kPage}, kLocalWrite), 0);
  EXPECT_EQ(list.pages()[0], first);
  EXPECT_EQ(list.pages().size(), 2u);
  list.give_back();
  EXPECT_EQ(list.post({2, kShift, 999, kPage}, kLocalWrite), EINVAL);
  EXPECT_EQ(list.post({2, kShift, 1000, kPage + 1}, kLocalWrite), EINVAL);
  EXPECT_EQ(unmap(address, kPage), 0);  // nothing stayed pinned
}

TEST_P(PageListTest, PostWhatIsWrong_ExpectEinvalAndNothingPinned) {
  const uint64_t good = map(first, 2 * kPage);
  const uint64_t other = map(first, kPage);
  const uint64_t gone = map(first, kPage);
  ASSERT_EQ(unmap(gone, kPage), 0);
  const uint64_t to_device = map(first, kPage, Direction::kToDevice);
  const uint64_t from_device = map(first, kPage, Direction::kFromDevice);
  struct Case {
    const char* name;
    std::array<uint64_t, 2> pages;
    PageExtent extent;
    Access access;
  };
  const Access write = kLocalWrite;
  const std::vector<Case> cases = {
      {"no bytes", {good, other}, {1, kShift, 0, 0}, write},
      {"no pages", {good, other}, {0, kShift, 0, 1}, write},
      {"too many pages", {good, other}, {3, kShift, 0, kPage}, write},
      {"too few pages", {good, other}, {1, kShift, 0, kPage + 1}, write},
      {"too few pages behind the offset", {good, other}, {2, kShift, 1, 2 * kPage}, write},
      {"offset beyond the page", {good, other}, {2, kShift, kPage, 1}, write},
      {"length that wraps", {good, other}, {2, kShift, 100, UINT64_MAX}, write},
      {"small pages", {good, other}, {1, 11, 0, 100}, write},
      {"huge pages", {good, other}, {1, 41, 0, 100}, write},
      {"not a multiple of its size", {good + 8, other}, {1, kShift, 0, 100}, write},
      {"virtual address", {reinterpret_cast<uint64_t>(first), other}, {1, kShift, 0, 100}, write},
      {"unmapped", {gone, other}, {1, kShift, 0, 100}, write},
      {"second unmapped", {good, gone}, {2, kShift, 0, kPage + 1}, write},
      {"beyond the mapping", {good, good + 2 * kPage}, {2, kShift, 0, kPage + 1}, write},
      {"write to what is read", {to_device, other}, {1, kShift, 0, 100}, write},
      {"read what is written", {from_device, other}, {1, kShift, 0, 100}, {}},
      {"remote read of what is written", {from_device, other}, {1, kShift, 0, 100}, write | kRemoteRead},
  };
  for (const Case& wrong : cases) {
    SCOPED_TRACE(wrong.name);
    PageList list(bus, 2);
    list.addresses()[0] = wrong.pages[0];
    list.addresses()[1] = wrong.pages[1];
    EXPECT_EQ(list.post(wrong.extent, wrong.access), EINVAL);
    EXPECT_FALSE(list.posted());
  }
  EXPECT_EQ(unmap(good, 2 * kPage), 0);
  EXPECT_EQ(unmap(other, kPage), 0);
}

struct Filled {
  uint32_t runs = 0;
  uint64_t offset = 0;
  PageExtent extent;
  std::vector<uint64_t> pages;
};

class FillTest : public testing::Test {
 protected:
  Filled fill(std::vector<BusRange> runs, uint64_t offset = 0, uint32_t pages_max = 8) {
    PageList list(bus, pages_max);
    Filled filled;
    filled.offset = offset;
    filled.runs = list.fill(runs, filled.offset, kPage, filled.extent).value();
    for (uint32_t i = 0; i < filled.extent.pages; ++i) filled.pages.push_back(list.addresses()[i]);
    return filled;
  }
  BusSpace bus{{}};
};

TEST_F(FillTest, WholePages_ExpectAllOfThem) {
  const Filled filled = fill({{0x10000, 0x2000}, {0x50000, 0x1000}});
  EXPECT_EQ(filled.runs, 2u);
  EXPECT_EQ(filled.offset, 0u);
  EXPECT_EQ(filled.pages, (std::vector<uint64_t>{0x10000, 0x11000, 0x50000}));
  EXPECT_EQ(filled.extent.length, 0x3000u);
  EXPECT_EQ(filled.extent.offset, 0u);
}

TEST_F(FillTest, OffsetIntoTheFirstRun_ExpectItsPageAndTheOffsetInIt) {
  const Filled filled = fill({{0x10800, 0x2800}, {0x50000, 0x10}}, 0x900);
  EXPECT_EQ(filled.runs, 2u);
  EXPECT_EQ(filled.pages, (std::vector<uint64_t>{0x11000, 0x12000, 0x50000}));
  EXPECT_EQ(filled.extent.offset, 0x100u);
  EXPECT_EQ(filled.extent.length, 0x1F00u + 0x10u);
}

TEST_F(FillTest, GapsWithinPages_ExpectTheMappingToEndThere) {
  EXPECT_EQ(fill({{0x10000, 0x800}, {0x50000, 0x1000}}).runs, 1u);
  EXPECT_EQ(fill({{0x10000, 0x1000}, {0x50800, 0x800}}).runs, 1u);
  EXPECT_EQ(fill({{0x10000, 0x1000}, {0x50000, 0x800}, {0x60000, 1}}).runs, 2u);
}

TEST_F(FillTest, RunsThatGoOnWhereTheLastEnded_ExpectNoPageTwice) {
  const Filled filled = fill({{0x10000, 0x800}, {0x10800, 0x900}, {0x11100, 0xF00}, {0x90000, 0x1000}});
  EXPECT_EQ(filled.runs, 4u);
  EXPECT_EQ(filled.pages, (std::vector<uint64_t>{0x10000, 0x11000, 0x90000}));
  EXPECT_EQ(filled.extent.length, 0x3000u);
}

TEST_F(FillTest, MoreThanFits_ExpectThePartOfTheLastRunThatFound_Room) {
  const Filled filled = fill({{0x10000, 0x1000}, {0x50000, 0x3000}, {0x90000, 0x1000}}, 0, 3);
  EXPECT_EQ(filled.runs, 2u);
  EXPECT_EQ(filled.offset, 0x2000u);
  EXPECT_EQ(filled.extent.pages, 3u);
  EXPECT_EQ(filled.extent.length, 0x3000u);
  const Filled full = fill({{0x10000, 0x1000}, {0x50000, 0x1000}}, 0, 1);
  EXPECT_EQ(full.runs, 1u);
  EXPECT_EQ(full.offset, 0u);
}

TEST_F(FillTest, WhatIsWrong_ExpectErrors) {
  PageList list(bus, 2);
  PageExtent extent;
  const std::vector<BusRange> runs{{0x10000, 0x1000}};
  const auto error = [&](std::span<const BusRange> of, uint64_t offset, uint64_t page_size) {
    return list.fill(of, offset, page_size, extent).error().code;
  };
  EXPECT_EQ(error(runs, 0, 0), EINVAL);
  EXPECT_EQ(error(runs, 0, 2048), EINVAL);
  EXPECT_EQ(error(runs, 0, 5000), EINVAL);
  EXPECT_EQ(error(runs, 0x1000, kPage), EINVAL);
  EXPECT_EQ(error({}, 0, kPage), EINVAL);
}

/// What was filled in covers, byte for byte, the beginning of the runs.
TEST_F(FillTest, AnyRuns_ExpectTheirBytesInOrder) {
  const uint64_t seed = 20261121;
  Random random(seed);
  for (int round = 0; round < 20000; ++round) {
    SCOPED_TRACE("seed " + std::to_string(seed) + " round " + std::to_string(round));
    std::vector<BusRange> runs;
    uint64_t end = 0x100000;
    for (uint64_t i = 1 + random.below(5); i > 0; --i) {
      const uint64_t begin =
          random.chance(1, 2) ? end : 0x100000 * (1 + random.below(9)) + random.below(2) * 512;
      const uint64_t length =
          random.chance(1, 2) ? kPage * (1 + random.below(3)) : 1 + random.below(3 * kPage);
      runs.push_back({begin, length});
      end = begin + length;
    }
    const uint64_t offset = random.below(runs[0].length);
    const uint32_t pages_max = 1 + static_cast<uint32_t>(random.below(6));
    const Filled filled = fill(runs, offset, pages_max);
    ASSERT_LE(filled.extent.pages, pages_max);
    ASSERT_LE(filled.runs, runs.size());
    uint64_t covered = 0;
    for (uint32_t i = 0; i < filled.runs; ++i) {
      const uint64_t begin = i == 0 ? offset : 0;
      const uint64_t end_of_run = i + 1 == filled.runs && filled.offset != 0 ? filled.offset : runs[i].length;
      for (uint64_t byte = begin; byte < end_of_run; byte += 1 + (end_of_run - begin) / 5) {
        const uint64_t in_list = filled.extent.offset + covered + (byte - begin);
        ASSERT_EQ(filled.pages[in_list / kPage] + in_list % kPage, runs[i].address + byte);
      }
      covered += end_of_run - begin;
    }
    ASSERT_EQ(covered, filled.extent.length);
  }
}

}  // namespace
}  // namespace uroce::mem
