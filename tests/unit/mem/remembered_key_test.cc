// A key that its user remembers: whatever happens to what it is bound to, the answer is the table's own.
#include "mem/keys/remembered_key.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "mem/regions/invalidation.h"
#include "mem/regions/window.h"

namespace uroce::mem {
namespace {

constexpr uint64_t kBytes = 10000;
constexpr uint64_t kIova = 0x700000;
constexpr DomainId kOurs{1};
constexpr DomainId kOthers{2};
constexpr Access kEverything = kLocalWrite | kRemoteWrite | kRemoteRead | kWindowBind;

class RememberedKeyTest : public ::testing::Test {
 protected:
  MemoryKey make(std::vector<std::byte>& memory) {
    return table_
        .register_user({.domain = kOurs,
                        .address = memory.data(),
                        .length = kBytes,
                        .iova = kIova,
                        .access = kEverything})
        .value()
        .rkey;
  }
  std::byte* find(MemoryKey key, uint64_t iova = kIova, uint64_t length = 1, DomainId domain = kOurs) {
    const auto found = remembered_.resolve_at_once(table_, key, domain, iova, length);
    EXPECT_EQ(found.right, found.data != nullptr);
    return found.data;
  }

  std::vector<std::byte> memory_ = std::vector<std::byte>(kBytes);
  std::vector<std::byte> other_ = std::vector<std::byte>(kBytes);
  LockedMemory locked_;
  RegionTable table_{{.entries_max = 64, .locked_memory = &locked_}};
  RememberedKey remembered_{kRemoteWrite};
};

TEST_F(RememberedKeyTest, BeforeItHasFoundAny_ExpectNone) {
  EXPECT_EQ(find({}), nullptr);
  EXPECT_EQ(find({}, 0, 1, {}), nullptr);
  EXPECT_EQ(find(MemoryKey::make(63, 1)), nullptr);
  EXPECT_EQ(find({UINT32_MAX}), nullptr);
}

TEST_F(RememberedKeyTest, TheSameKeyAgain_ExpectItsBytesAndNotOneOutside) {
  const MemoryKey key = make(memory_);
  for (int times = 0; times < 2; ++times) {
    EXPECT_EQ(find(key), memory_.data());
    EXPECT_EQ(find(key, kIova + 100, kBytes - 100), memory_.data() + 100);
    EXPECT_EQ(find(key, kIova, kBytes), memory_.data());
    EXPECT_EQ(find(key, kIova, kBytes + 1), nullptr);
    EXPECT_EQ(find(key, kIova + kBytes, 1), nullptr);
    EXPECT_EQ(find(key, kIova - 1, 2), nullptr);
    EXPECT_EQ(find(key, kIova + 5, UINT64_MAX), nullptr);
    EXPECT_EQ(find(key, kIova, 0), nullptr);
  }
}

TEST_F(RememberedKeyTest, AnotherKeyOrDomain_ExpectWhatTheyAre) {
  const MemoryKey key = make(memory_);
  const MemoryKey second = make(other_);
  EXPECT_EQ(find(key), memory_.data());
  EXPECT_EQ(find(second), other_.data());
  EXPECT_EQ(find(key), memory_.data());
  EXPECT_EQ(find(key, kIova, 1, kOthers), nullptr);
  EXPECT_EQ(find(MemoryKey::make(key.index(), static_cast<uint8_t>(key.key() + 1))), nullptr);
  EXPECT_EQ(find(key), memory_.data());
}

TEST_F(RememberedKeyTest, Deregistered_ExpectItRefusedAlsoWhenItsIndexIsUsedAgain) {
  const MemoryKey key = make(memory_);
  ASSERT_EQ(find(key), memory_.data());
  ASSERT_TRUE(table_.deregister(key));
  EXPECT_EQ(find(key), nullptr);
  MemoryKey again;
  for (int i = 0; i < 64; ++i) {
    again = make(other_);
    if (again.index() == key.index()) break;
    ASSERT_TRUE(table_.deregister(again));
  }
  ASSERT_EQ(again.index(), key.index());
  EXPECT_EQ(find(key), nullptr);
  EXPECT_EQ(find(again), other_.data());
}

TEST_F(RememberedKeyTest, BoundAnew_ExpectTheNewPlaceAndRights) {
  const MemoryKey key = make(memory_);
  ASSERT_EQ(find(key, kIova), memory_.data());
  ASSERT_TRUE(table_.reregister(key, {.place = RegionChange::Place{other_.data(), kBytes}}));
  EXPECT_EQ(find(key, kIova), nullptr);
  const auto address = reinterpret_cast<uint64_t>(other_.data());
  EXPECT_EQ(find(key, address + 7), other_.data() + 7);
  ASSERT_TRUE(table_.reregister(key, {.access = kLocalWrite | kRemoteRead}));
  EXPECT_EQ(find(key, address), nullptr);
  ASSERT_TRUE(table_.reregister(key, {.access = kLocalWrite | kRemoteWrite}));
  EXPECT_EQ(find(key, address), other_.data());
  ASSERT_TRUE(table_.reregister(key, {.domain = kOthers}));
  EXPECT_EQ(find(key, address), nullptr);
  EXPECT_EQ(find(key, address, 1, kOthers), other_.data());
}

TEST_F(RememberedKeyTest, WindowThatIsInvalidatedAndBoundElsewhere_ExpectTheOldBindingRefused) {
  const KeyUser user{.domain = kOurs, .queue_pair = {17}};
  const MemoryKey region = make(memory_);
  const std::unique_ptr<Window> window =
      std::move(Window::make(table_, kOurs, RegionKind::kWindow2A).value());
  Invalidation invalidation;
  const auto bind = [&](uint8_t low, uint64_t offset) {
    const WindowBinding wanted{.window = window->first_key(),
                               .key = MemoryKey::make(window->first_key().index(), low),
                               .region = region,
                               .access = kRemoteWrite,
                               .address = kIova + offset,
                               .length = 1000,
                               .type1 = false};
    EXPECT_EQ(bind_window(table_, wanted, user), Bound::kDone);
    return wanted.key;
  };
  const MemoryKey key = bind(1, 0);
  ASSERT_EQ(find(key), memory_.data());
  ASSERT_EQ(invalidation.begin(table_, key, user), Invalidation::Answer::kOver);
  EXPECT_EQ(find(key), nullptr);
  // The same key, over other bytes.
  ASSERT_EQ(bind(1, 5000), key);
  EXPECT_EQ(find(key), nullptr);
  EXPECT_EQ(find(key, kIova + 5000), memory_.data() + 5000);
  ASSERT_EQ(invalidation.begin(table_, key, user), Invalidation::Answer::kOver);
  window->end();
}

}  // namespace
}  // namespace uroce::mem
