#include "mem/regions/physical_region.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <memory>
#include <string>
#include <vector>

#include "pages.h"

namespace uroce::mem {
namespace {

constexpr DomainId kOurs{1};
constexpr DomainId kOthers{2};
constexpr Access kEverything = kLocalWrite | kRemoteWrite | kRemoteRead | kRemoteAtomic;

/// With and without an offset of all bus addresses.
class PhysicalRegionTest : public testing::TestWithParam<uint64_t> {
 protected:
  static constexpr uint64_t kIova = 0x123456;

  BusRange map(size_t offset, size_t length, Direction direction = Direction::kBidirectional) {
    return {bus_.map(memory_.data() + offset, length, direction).value(), length};
  }
  int refusal(std::span<const BusRange> runs, const PhysicalRegion::Options& options) {
    const auto made = PhysicalRegion::make(table_, runs, options);
    return made.ok() ? 0 : made.error().code;
  }
  int refusal(const BusRange& run, Access access) {
    return refusal({&run, 1}, {.domain = kOurs, .access = access, .iova = kIova});
  }
  int unmap(const BusRange& range, Direction direction = Direction::kBidirectional) {
    const Status status = bus_.unmap({&range, 1}, direction);
    return status.ok() ? 0 : status.error().code;
  }
  Fault fault(MemoryKey key, uint64_t iova, uint64_t length, Access needed) {
    return table_.resolve(key, {kOurs, {}}, iova, length, needed).fault();
  }

  std::vector<std::byte> memory_ = std::vector<std::byte>(100000);
  BusSpace bus_{{.offset = GetParam()}};
  RegionTable table_{{.entries_max = 64, .bus_space = &bus_}};
};

INSTANTIATE_TEST_SUITE_P(Offsets, PhysicalRegionTest,
                         testing::Values(uint64_t{0}, uint64_t{4096}, uint64_t{1} << 44));

TEST_P(PhysicalRegionTest, RunsOfAnyLengthAndPlace_ExpectOneRangeOfAddresses) {
  const std::vector<BusRange> runs = {map(50000, 7), map(3, 5000), map(20001, 1), map(70000, 4096)};
  const auto region =
      taken(PhysicalRegion::make(table_, runs, {.domain = kOurs, .access = kEverything, .iova = kIova}));
  EXPECT_EQ(region->length(), 7u + 5000 + 1 + 4096);
  const Binding whole =
      table_.resolve(region->key(), {kOurs, {}}, kIova, region->length(), kRemoteWrite | kRemoteRead);
  ASSERT_TRUE(whole.ok());
  uint64_t at = 0;
  for (const size_t expected : {size_t{50000}, size_t{3}, size_t{20001}, size_t{70000}}) {
    EXPECT_EQ(whole.piece(at).data, memory_.data() + expected);
    at += whole.piece(at).length;
  }
  EXPECT_EQ(at, region->length());
  EXPECT_EQ(whole.piece(10).data, memory_.data() + 6);
  EXPECT_EQ(fault(region->key(), kIova, region->length() + 1, kRemoteRead), Fault::kBounds);
  EXPECT_EQ(fault(region->key(), kIova - 1, 1, kRemoteRead), Fault::kBounds);
  EXPECT_EQ(table_.resolve(region->key(), {kOthers, {}}, kIova, 1, kRemoteRead).fault(), Fault::kDomain);
  ASSERT_TRUE(region->end().ok());
}

TEST_P(PhysicalRegionTest, ZeroBased_ExpectAddressesFromZero) {
  const BusRange run = map(100, 100);
  const auto region =
      taken(PhysicalRegion::make(table_, {&run, 1}, {.domain = kOurs, .access = kZeroBased, .iova = kIova}));
  const Binding binding = table_.resolve(region->key(), {kOurs, {}}, 40, 60, kLocalRead);
  ASSERT_TRUE(binding.ok());
  EXPECT_EQ(binding.piece(0).data, memory_.data() + 140);
  ASSERT_TRUE(region->end().ok());
}

/// The same rights as for a user region, checked bit by bit.
TEST_P(PhysicalRegionTest, Rights_ExpectThoseThatWereGivenAndNoOther) {
  const BusRange run = map(0, 4096);
  for (uint32_t bits = 0; bits < 16; ++bits) {
    const Access access(bits);
    const bool contradictory = access.any(kRemoteWrite | kRemoteAtomic) && !access.any(kLocalWrite);
    ASSERT_EQ(refusal(run, access), contradictory ? EINVAL : 0) << bits;
    if (contradictory) continue;
    const auto region =
        taken(PhysicalRegion::make(table_, {&run, 1}, {.domain = kOurs, .access = access, .iova = kIova}));
    for (const Access needed : {kLocalRead, kLocalWrite, kRemoteWrite, kRemoteRead, kRemoteAtomic}) {
      const bool given = needed == kLocalRead || access.covers(needed);
      EXPECT_EQ(fault(region->key(), kIova, 8, needed), given ? Fault::kNone : Fault::kAccess);
    }
    ASSERT_TRUE(region->end().ok());
  }
}

struct DirectionCase {
  Direction direction;
  Access access;
  int refusal;
};

TEST_P(PhysicalRegionTest, Directions_ExpectThemToLimitTheRights) {
  const DirectionCase cases[] = {
      {Direction::kToDevice, {}, 0},
      {Direction::kToDevice, kRemoteRead, 0},
      {Direction::kToDevice, kLocalWrite, EFAULT},
      {Direction::kToDevice, kLocalWrite | kRemoteWrite, EFAULT},
      {Direction::kFromDevice, {}, EFAULT},
      {Direction::kFromDevice, kRemoteRead, EFAULT},
      {Direction::kFromDevice, kLocalWrite, 0},
      {Direction::kFromDevice, kLocalWrite | kRemoteWrite, 0},
      {Direction::kFromDevice, kLocalWrite | kRemoteRead, EFAULT},
      {Direction::kBidirectional, kEverything, 0},
  };
  for (const DirectionCase& c : cases) {
    const BusRange run = map(0, 4096, c.direction);
    EXPECT_EQ(refusal(run, c.access), c.refusal) << int(c.direction) << " " << c.access.bits();
    EXPECT_EQ(unmap(run, c.direction), c.refusal == 0 ? EBUSY : 0);
  }
}

TEST_P(PhysicalRegionTest, MemoryThatOnlyTheDeviceWrites_ExpectItNotToBeSent) {
  const std::vector<BusRange> runs = {map(0, 4096), map(8192, 4096, Direction::kFromDevice)};
  const auto region =
      taken(PhysicalRegion::make(table_, runs, {.domain = kOurs, .access = kLocalWrite, .iova = kIova}));
  EXPECT_EQ(fault(region->key(), kIova, 10, kLocalWrite), Fault::kNone);
  EXPECT_EQ(fault(region->key(), kIova, 10, kLocalRead), Fault::kAccess);
  ASSERT_TRUE(region->end().ok());
}

TEST_P(PhysicalRegionTest, Refused_ExpectTheErrnoAndNothingPinned) {
  const BusRange run = map(0, 4096);
  const PhysicalRegion::Options options{.domain = kOurs, .access = kEverything, .iova = kIova};
  EXPECT_EQ(refusal({}, options), EINVAL);
  EXPECT_EQ(refusal(std::vector<BusRange>(PhysicalRegion::kRunsMax + 1, run), options), EINVAL);
  EXPECT_EQ(refusal(std::vector<BusRange>{run, {run.address, 0}}, options), EINVAL);
  EXPECT_EQ(refusal(std::vector<BusRange>{run, {run.address, UINT64_MAX - 4095}}, options), EINVAL);
  EXPECT_EQ(refusal({&run, 1}, {.domain = {}, .access = kEverything}), EINVAL);
  EXPECT_EQ(refusal({&run, 1}, {.domain = kOurs, .iova = UINT64_MAX - 4094}), EINVAL);
  EXPECT_EQ(refusal({&run, 1}, {.domain = kOurs, .access = Access(1u << 15)}), EINVAL);
  EXPECT_EQ(refusal({&run, 1}, {.domain = kOurs, .access = kOnDemand}), EOPNOTSUPP);
  EXPECT_EQ(refusal(std::vector<BusRange>{run, {run.address, 4097}}, options), EFAULT);
  EXPECT_EQ(refusal(std::vector<BusRange>{run, {run.address + 1, 4096}}, options), EFAULT);
  const auto virtual_address = reinterpret_cast<uint64_t>(memory_.data());
  EXPECT_EQ(refusal(std::vector<BusRange>{run, {virtual_address, 16}}, options), EFAULT);
  const BusRange gone = map(8192, 100);
  ASSERT_EQ(unmap(gone), 0);
  EXPECT_EQ(refusal(std::vector<BusRange>{run, gone}, options), EFAULT);
  EXPECT_EQ(table_.regions(), 0u);
  EXPECT_EQ(unmap(run), 0);
}

TEST_P(PhysicalRegionTest, TableFull_ExpectEnomemAndNothingPinned) {
  const BusRange run = map(0, 4096);
  std::vector<std::unique_ptr<PhysicalRegion>> regions;
  for (;;) {
    auto made = PhysicalRegion::make(table_, {&run, 1}, {.domain = kOurs, .iova = kIova});
    if (!made.ok()) {
      EXPECT_EQ(made.error().code, ENOMEM);
      break;
    }
    regions.push_back(std::move(*made));
  }
  EXPECT_EQ(regions.size(), 63u);
  for (const auto& region : regions) {
    EXPECT_EQ(unmap(run), EBUSY);
    ASSERT_TRUE(region->end().ok());
  }
  EXPECT_EQ(unmap(run), 0);
}

TEST_P(PhysicalRegionTest, UnmapWhatItCovers_ExpectEbusyUntilTheEnd) {
  const std::vector<BusRange> runs = {map(0, 100), map(200, 100)};
  const auto region = taken(PhysicalRegion::make(table_, runs, {.domain = kOurs, .iova = kIova}));
  EXPECT_EQ(unmap(runs[0]), EBUSY);
  EXPECT_EQ(unmap(runs[1]), EBUSY);
  const MemoryKey key = region->key();
  ASSERT_TRUE(region->end().ok());
  EXPECT_EQ(fault(key, kIova, 1, kLocalRead), Fault::kKey);
  EXPECT_EQ(region->end().error().code, EINVAL);
  EXPECT_EQ(unmap(runs[0]), 0);
  EXPECT_EQ(unmap(runs[1]), 0);
}

TEST_P(PhysicalRegionTest, EndWithAWindowOverIt_ExpectEbusy) {
  const BusRange run = map(0, 100);
  const auto region =
      taken(PhysicalRegion::make(table_, {&run, 1}, {.domain = kOurs, .access = kWindowBind, .iova = kIova}));
  RegionObject* object = table_.read_entry(region->key()).object;
  ASSERT_EQ(object, region.get());
  object->lock();
  object->windows = 1;
  object->unlock();
  EXPECT_EQ(region->end().error().code, EBUSY);
  EXPECT_EQ(fault(region->key(), kIova, 1, kLocalRead), Fault::kNone);
  object->lock();
  object->windows = 0;
  object->unlock();
  EXPECT_TRUE(region->end().ok());
}

}  // namespace
}  // namespace uroce::mem
