#include "mem/regions/dma_region.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <vector>

namespace uroce::mem {
namespace {

constexpr DomainId kOurs{1};
constexpr DomainId kOthers{2};

class DmaRegionTest : public testing::Test {
 protected:
  uint64_t map(Direction direction = Direction::kBidirectional) {
    return bus_.map(memory_.data(), memory_.size(), direction).value();
  }
  Fault fault(MemoryKey key, const KeyUser& user, uint64_t address, Access needed = kLocalRead) {
    return table_.resolve(key, user, address, 16, needed).fault();
  }

  std::vector<std::byte> memory_ = std::vector<std::byte>(10000);
  BusSpace bus_{{.offset = uint64_t{1} << 44}};
  RegionTable table_{{.entries_max = 64, .bus_space = &bus_}};
};

TEST_F(DmaRegionTest, MappedMemory_ExpectItByBusAddressOnly) {
  const MemoryKey key = make_dma_region(table_, kOurs, kLocalWrite).value();
  const uint64_t bus = map();
  const Binding binding = table_.resolve(key, {kOurs, {}}, bus + 50, 100, kLocalWrite);
  ASSERT_TRUE(binding.ok());
  EXPECT_EQ(binding.piece(10).data, memory_.data() + 60);
  EXPECT_EQ(binding.piece(10).length, 90u);
  EXPECT_EQ(fault(key, {kOurs, {}}, reinterpret_cast<uint64_t>(memory_.data())), Fault::kBounds);
  EXPECT_EQ(fault(key, {kOurs, {}}, bus + memory_.size() - 15), Fault::kBounds);
}

TEST_F(DmaRegionTest, Unmapped_ExpectNothing) {
  const MemoryKey key = make_dma_region(table_, kOurs, kLocalWrite).value();
  const BusRange range{map(), memory_.size()};
  EXPECT_EQ(fault(key, {kOurs, {}}, range.address), Fault::kNone);
  ASSERT_TRUE(bus_.unmap({&range, 1}, Direction::kBidirectional).ok());
  EXPECT_EQ(fault(key, {kOurs, {}}, range.address), Fault::kBounds);
}

TEST_F(DmaRegionTest, Rights_ExpectLocalWriteAtMost) {
  for (const Access access : {kRemoteRead, kRemoteWrite | kLocalWrite, kRemoteAtomic, kWindowBind, kZeroBased,
                              kOnDemand, kHugeTlb, Access(1u << 12), Access(1u << 20)}) {
    const auto refused = make_dma_region(table_, kOurs, access);
    ASSERT_FALSE(refused.ok()) << access.bits();
    EXPECT_EQ(refused.error().code, EINVAL);
  }
  const MemoryKey reads = make_dma_region(table_, kOurs, {}).value();
  const uint64_t bus = map();
  EXPECT_EQ(fault(reads, {kOurs, {}}, bus, kLocalRead), Fault::kNone);
  EXPECT_EQ(fault(reads, {kOurs, {}}, bus, kLocalWrite), Fault::kAccess);
  const MemoryKey writes = make_dma_region(table_, kOurs, kLocalWrite).value();
  EXPECT_EQ(fault(writes, {kOurs, {}}, bus, kLocalWrite), Fault::kNone);
  for (const Access remote : {kRemoteRead, kRemoteWrite, kRemoteAtomic})
    EXPECT_EQ(fault(writes, {kOurs, {}}, bus, remote), Fault::kAccess);
  EXPECT_EQ(fault(writes, {kOthers, {}}, bus), Fault::kDomain);
}

TEST_F(DmaRegionTest, Direction_ExpectItToBindWhoHasTheKey) {
  const MemoryKey key = make_dma_region(table_, kOurs, kLocalWrite).value();
  EXPECT_EQ(fault(key, {kOurs, {}}, map(Direction::kToDevice), kLocalWrite), Fault::kBounds);
  EXPECT_EQ(fault(key, {kOurs, {}}, map(Direction::kFromDevice), kLocalRead), Fault::kBounds);
}

TEST_F(DmaRegionTest, End_ExpectTheKeyToBeGone) {
  const MemoryKey key = make_dma_region(table_, kOurs, kLocalWrite).value();
  const uint64_t bus = map();
  ASSERT_TRUE(end_dma_region(table_, key).ok());
  EXPECT_EQ(fault(key, {kOurs, {}}, bus), Fault::kKey);
  EXPECT_EQ(end_dma_region(table_, key).error().code, EINVAL);
}

TEST_F(DmaRegionTest, ReservedLKey_ExpectEveryDomainButOnlyWhoMayUseIt) {
  const MemoryKey key = make_reserved_lkey(table_).value();
  const uint64_t bus = map();
  for (const DomainId domain : {kOurs, kOthers}) {
    EXPECT_EQ(fault(key, {.domain = domain, .reserved_lkey = true}, bus, kLocalWrite), Fault::kNone);
    EXPECT_EQ(fault(key, {.domain = domain, .reserved_lkey = true}, bus, kLocalRead), Fault::kNone);
    EXPECT_EQ(fault(key, {.domain = domain, .reserved_lkey = false}, bus, kLocalWrite), Fault::kDomain);
    for (const Access remote : {kRemoteRead, kRemoteWrite, kRemoteAtomic})
      EXPECT_EQ(fault(key, {.domain = domain, .reserved_lkey = true}, bus, remote), Fault::kAccess);
  }
  EXPECT_EQ(end_dma_region(table_, key).error().code, EINVAL);
}

}  // namespace
}  // namespace uroce::mem
