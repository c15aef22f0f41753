#include "mem/keys/region_table.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <set>
#include <vector>

namespace uroce::mem {
namespace {

constexpr DomainId kOurs{1};
constexpr DomainId kOthers{2};
constexpr Access kEverything = kLocalWrite | kRemoteWrite | kRemoteRead | kRemoteAtomic;

class RegionTableTest : public testing::Test {
 protected:
  UserRegion region(Access access = kEverything) {
    return {.domain = kOurs,
            .address = memory_.data(),
            .length = memory_.size(),
            .iova = kIova,
            .access = access};
  }
  /// The errno with which a registration is refused; 0 when it is not.
  int refusal(const UserRegion& wanted) {
    const Result<RegionKeys> keys = table_.register_user(wanted);
    return keys.ok() ? 0 : keys.error().code;
  }
  Fault fault(MemoryKey key, uint64_t iova, uint64_t length, Access needed = kLocalRead) {
    return table_.resolve(key, {kOurs, {}}, iova, length, needed).fault();
  }

  static constexpr uint64_t kIova = 0x700000;
  std::vector<std::byte> memory_ = std::vector<std::byte>(10000);
  LockedMemory locked_;
  RegionTable table_{{.entries_max = 64, .cold_bytes = 20000, .locked_memory = &locked_}};
};

TEST_F(RegionTableTest, RegisterAndResolve_ExpectTheBytesThatTheIovaNames) {
  const RegionKeys keys = table_.register_user(region()).value();
  EXPECT_EQ(keys.lkey, keys.rkey);
  const Binding binding = table_.resolve(keys.rkey, {kOurs, {}}, kIova + 100, 50, kRemoteWrite);
  ASSERT_TRUE(binding.ok());
  EXPECT_EQ(binding.length(), 50u);
  EXPECT_EQ(binding.piece(0).data, memory_.data() + 100);
  EXPECT_EQ(binding.piece(20).data, memory_.data() + 120);
  EXPECT_EQ(binding.piece(20).length, 30u);
  EXPECT_FALSE(binding.cold());
}

TEST_F(RegionTableTest, ForEach_ExpectEveryRegionThatThereIs) {
  const MemoryKey kept = table_.register_user(region()).value().lkey;
  const MemoryKey read_only = table_.register_user(region(kRemoteRead)).value().lkey;
  const MemoryKey ended = table_.register_user(region()).value().lkey;
  ASSERT_TRUE(table_.deregister(ended).ok());
  std::set<uint32_t> keys;
  table_.for_each([&](const RegionBinding& binding) {
    keys.insert(binding.key.value);
    EXPECT_EQ(binding.kind, RegionKind::kUser);
    EXPECT_EQ(binding.domain, kOurs);
    EXPECT_EQ(binding.iova, kIova);
    EXPECT_EQ(binding.length, memory_.size());
    EXPECT_EQ(binding.access.any(kRemoteWrite), binding.key == kept);
  });
  EXPECT_EQ(keys, (std::set<uint32_t>{kept.value, read_only.value}));
}

TEST_F(RegionTableTest, ResolveAtTheEdges_ExpectNotOneByteOutside) {
  const MemoryKey key = table_.register_user(region()).value().lkey;
  EXPECT_EQ(fault(key, kIova, 10000), Fault::kNone);
  EXPECT_EQ(fault(key, kIova + 9999, 1), Fault::kNone);
  EXPECT_EQ(fault(key, kIova + 10000, 0), Fault::kNone);
  EXPECT_EQ(fault(key, kIova, 10001), Fault::kBounds);
  EXPECT_EQ(fault(key, kIova + 1, 10000), Fault::kBounds);
  EXPECT_EQ(fault(key, kIova + 10000, 1), Fault::kBounds);
  EXPECT_EQ(fault(key, kIova + 10001, 0), Fault::kBounds);
  EXPECT_EQ(fault(key, kIova - 1, 1), Fault::kBounds);
  EXPECT_EQ(fault(key, kIova - 1, 0), Fault::kBounds);
  EXPECT_EQ(fault(key, 0, 1), Fault::kBounds);
}

TEST_F(RegionTableTest, EndADomain_ExpectItsKeysDeadAndItsMemoryPaidBack) {
  UserRegion others = region();
  others.domain = kOthers;
  std::vector<MemoryKey> ended;
  for (int i = 0; i < 3; ++i) ended.push_back(table_.register_user(region()).value().lkey);
  ended.push_back(table_.register_user(region(kEverything | kWindowBind)).value().lkey);
  const MemoryKey stays = table_.register_user(others).value().lkey;
  table_.end_domain(kOurs);
  for (const MemoryKey key : ended) EXPECT_EQ(fault(key, kIova, 1), Fault::kKey);
  EXPECT_TRUE(table_.resolve(stays, {kOthers, {}}, kIova, 1, kLocalRead).ok());
  EXPECT_EQ(table_.regions(), 1u);
  EXPECT_TRUE(table_.deregister(stays));
  EXPECT_EQ(locked_.bytes(), 0u);
  table_.end_domain(kOurs);
}

TEST_F(RegionTableTest, ResolveRangesThatWrap_ExpectBoundsFaults) {
  const MemoryKey key = table_.register_user(region()).value().lkey;
  EXPECT_EQ(fault(key, kIova, UINT64_MAX), Fault::kBounds);
  EXPECT_EQ(fault(key, kIova + 5, UINT64_MAX - 4), Fault::kBounds);
  EXPECT_EQ(fault(key, UINT64_MAX, 1), Fault::kBounds);
  EXPECT_EQ(fault(key, UINT64_MAX, kIova + 10), Fault::kBounds);
  EXPECT_EQ(fault(key, UINT64_MAX - 9, UINT64_MAX), Fault::kBounds);
}

TEST_F(RegionTableTest, RegionThatEndsWhereIovasEnd_ExpectItsLastByteToResolve) {
  UserRegion wanted = region();
  wanted.iova = UINT64_MAX - wanted.length + 1;
  const MemoryKey key = table_.register_user(wanted).value().lkey;
  EXPECT_EQ(fault(key, UINT64_MAX, 1), Fault::kNone);
  EXPECT_EQ(fault(key, UINT64_MAX, 2), Fault::kBounds);
  EXPECT_EQ(fault(key, 0, 0), Fault::kBounds);
  EXPECT_EQ(fault(key, 0, 1), Fault::kBounds);
}

TEST_F(RegionTableTest, SeveralThingsWrong_ExpectTheFirstCheckToAnswer) {
  const MemoryKey key = table_.register_user(region(kLocalWrite)).value().lkey;
  const MemoryKey stale{key.value + 1};
  EXPECT_EQ(table_.resolve(stale, {kOthers, {}}, 0, 1, kRemoteRead).fault(), Fault::kKey);
  EXPECT_EQ(table_.resolve(key, {kOthers, {}}, 0, 1, kRemoteRead).fault(), Fault::kDomain);
  EXPECT_EQ(table_.resolve(key, {kOurs, {}}, 0, 1, kRemoteRead).fault(), Fault::kAccess);
  EXPECT_EQ(table_.resolve(key, {kOurs, {}}, 0, 1, kLocalWrite).fault(), Fault::kBounds);
}

TEST_F(RegionTableTest, AskForSeveralRights_ExpectEachToBeNeeded) {
  const MemoryKey key = table_.register_user(region(kLocalWrite | kRemoteRead)).value().lkey;
  EXPECT_EQ(fault(key, kIova, 1, kLocalRead), Fault::kNone);
  EXPECT_EQ(fault(key, kIova, 1, kRemoteRead), Fault::kNone);
  EXPECT_EQ(fault(key, kIova, 1, kRemoteRead | kLocalWrite), Fault::kNone);
  EXPECT_EQ(fault(key, kIova, 1, kRemoteRead | kRemoteWrite), Fault::kAccess);
  EXPECT_EQ(fault(key, kIova, 1, kRemoteAtomic), Fault::kAccess);
}

TEST_F(RegionTableTest, ZeroBasedRegion_ExpectOffsetsToBeAddresses) {
  const MemoryKey key = table_.register_user(region(kEverything | kZeroBased)).value().lkey;
  EXPECT_EQ(table_.resolve(key, {kOurs, {}}, 7, 1, kRemoteRead).piece(0).data, memory_.data() + 7);
  EXPECT_EQ(fault(key, kIova, 1), Fault::kBounds);
}

TEST_F(RegionTableTest, KeysThatWereNotMade_ExpectKeyFaults) {
  const MemoryKey key = table_.register_user(region()).value().lkey;
  for (uint32_t low = 0; low < 256; ++low) {
    const MemoryKey guess = MemoryKey::make(key.index(), static_cast<uint8_t>(low));
    EXPECT_EQ(fault(guess, kIova, 1), guess == key ? Fault::kNone : Fault::kKey);
  }
  for (const uint32_t value : {0u, 1u, 0xFFu, 0x100u, 63u << 8, 64u << 8, 0xFFFFFF00u, 0xFFFFFFFFu}) {
    EXPECT_EQ(fault(MemoryKey{value}, kIova, 1), Fault::kKey) << value;
    table_.prefetch(MemoryKey{value});
  }
}

TEST_F(RegionTableTest, Deregister_ExpectTheKeyDeadForGood) {
  const MemoryKey first = table_.register_user(region()).value().lkey;
  EXPECT_EQ(table_.regions(), 1u);
  EXPECT_TRUE(table_.deregister(first).ok());
  EXPECT_EQ(table_.regions(), 0u);
  EXPECT_EQ(fault(first, kIova, 1), Fault::kKey);
  EXPECT_EQ(table_.deregister(first).error().code, EINVAL);
  // No key comes back before each index has been through its 256.
  std::set<uint32_t> seen{first.value};
  for (int i = 0; i < 63 * 255; ++i) {
    const MemoryKey key = table_.register_user(region()).value().lkey;
    EXPECT_TRUE(seen.insert(key.value).second);
    EXPECT_EQ(fault(first, kIova, 1), Fault::kKey);
    ASSERT_TRUE(table_.deregister(key).ok());
  }
}

TEST_F(RegionTableTest, DeregisterWhatIsNotThere_ExpectEinval) {
  for (const uint32_t value : {0u, 1u, 0x101u, 0xFFFFFFFFu}) {
    EXPECT_EQ(table_.deregister(MemoryKey{value}).error().code, EINVAL);
  }
  const MemoryKey key = table_.register_user(region()).value().lkey;
  EXPECT_EQ(table_.deregister(MemoryKey{key.value ^ 1}).error().code, EINVAL);
  EXPECT_EQ(fault(key, kIova, 1), Fault::kNone);
}

TEST_F(RegionTableTest, FillTheTable_ExpectEnomemAndRoomAgainAfterwards) {
  std::vector<MemoryKey> keys;
  for (int i = 0; i < 63; ++i) keys.push_back(table_.register_user(region()).value().lkey);
  const uint64_t charged = locked_.bytes();
  EXPECT_EQ(refusal(region()), ENOMEM);
  EXPECT_EQ(locked_.bytes(), charged);
  ASSERT_TRUE(table_.deregister(keys[5]).ok());
  EXPECT_EQ(refusal(region()), 0);
}

TEST_F(RegionTableTest, ContradictoryOrUnknownRights_ExpectEinval) {
  EXPECT_EQ(refusal(region(kRemoteWrite)), EINVAL);
  EXPECT_EQ(refusal(region(kRemoteAtomic)), EINVAL);
  EXPECT_EQ(refusal(region(Access(1u << 10))), EINVAL);
  EXPECT_EQ(refusal(region(Access(1u << 30))), EINVAL);
  EXPECT_EQ(refusal(region(Access(1u << 31))), EINVAL);
  EXPECT_EQ(table_.regions(), 0u);
}

TEST_F(RegionTableTest, RightsThatAreNotImplemented_ExpectEopnotsupp) {
  for (const Access access : {kOnDemand, kFlushPersistent}) {
    EXPECT_EQ(refusal(region(kLocalWrite | access)), EOPNOTSUPP);
  }
}

TEST_F(RegionTableTest, HintsAndOptionalRights_ExpectThemTakenAndIgnored) {
  for (uint32_t bit = 20; bit < 30; ++bit) EXPECT_EQ(refusal(region(kLocalWrite | Access(1u << bit))), 0);
  EXPECT_EQ(refusal(region(kLocalWrite | kHugeTlb)), 0);
  EXPECT_EQ(refusal(region(kRemoteRead)), 0);
  EXPECT_EQ(refusal(region(Access())), 0);
}

TEST_F(RegionTableTest, SenselessRanges_ExpectEinval) {
  UserRegion wanted = region();
  wanted.length = UINT64_MAX;
  EXPECT_EQ(refusal(wanted), EINVAL);
  wanted = region();
  wanted.iova = UINT64_MAX - 5;
  EXPECT_EQ(refusal(wanted), EINVAL);
  wanted = region();
  wanted.domain = DomainId{};
  EXPECT_EQ(refusal(wanted), EINVAL);
}

/// Wherever it is: it is not looked at, and nothing is paid for.
TEST_F(RegionTableTest, RegionOfNoBytes_ExpectAKeyThatGivesAccessToNone) {
  for (std::byte* const address : {memory_.data(), static_cast<std::byte*>(nullptr), memory_.data() + 1}) {
    UserRegion wanted = region();
    wanted.address = address;
    wanted.length = 0;
    const auto keys = table_.register_user(wanted);
    ASSERT_TRUE(keys.ok());
    EXPECT_EQ(locked_.bytes(), 0u);
    const KeyUser user{.domain = kOurs, .queue_pair = {}};
    EXPECT_EQ(table_.resolve(keys->lkey, user, kIova, 0, kRemoteWrite).fault(), Fault::kNone);
    EXPECT_EQ(table_.resolve(keys->lkey, user, kIova, 1, kRemoteWrite).fault(), Fault::kBounds);
    EXPECT_EQ(table_.resolve(keys->lkey, user, kIova - 1, 1, kRemoteWrite).fault(), Fault::kBounds);
    EXPECT_EQ(table_.reregister(keys->lkey, {.domain = {}, .place = {}, .access = kLocalWrite}).ok(), true);
    EXPECT_TRUE(table_.deregister(keys->lkey).ok());
  }
  EXPECT_EQ(table_.regions(), 0u);
  EXPECT_EQ(locked_.bytes(), 0u);
}

TEST_F(RegionTableTest, LargeRegion_ExpectItCold) {
  memory_.resize(20000);
  const MemoryKey key = table_.register_user(region()).value().lkey;
  EXPECT_TRUE(table_.resolve(key, {kOurs, {}}, kIova, 1, kRemoteWrite).cold());
}

TEST_F(RegionTableTest, ManyRegions_ExpectEachToResolveToItself) {
  RegionTable table({.entries_max = 1u << 18, .locked_memory = &locked_});
  std::vector<MemoryKey> keys;
  for (size_t i = 0; i < 100000; ++i) {
    UserRegion wanted = region();
    wanted.address += i % 5000;
    wanted.length = 10;
    keys.push_back(table.register_user(wanted).value().lkey);
  }
  for (size_t i = 0; i < keys.size(); ++i) {
    ASSERT_EQ(table.resolve(keys[i], {kOurs, {}}, kIova, 10, kRemoteRead).piece(0).data,
              memory_.data() + i % 5000);
  }
}

}  // namespace
}  // namespace uroce::mem
