// The low eight bits of keys: in which order the stack gives them, and when they return.
#include "mem/keys/key_bytes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "mem/regions/fast_region.h"
#include "mem/regions/fmr.h"
#include "mem/regions/invalidation.h"
#include "pages.h"

namespace uroce::mem {
namespace {

constexpr DomainId kOurs{1};

TEST(KeyBytes, EveryIndex_ExpectAll256InAnOrderOfItsOwn) {
  const KeyBytes bytes({1, 2});
  std::set<std::string> orders;
  for (uint32_t index = 1; index <= 500; ++index) {
    std::string order;
    MemoryKey key = bytes.first(index);
    for (int i = 0; i < 256; ++i, key = bytes.after(key)) {
      ASSERT_EQ(key.index(), index);
      order.push_back(static_cast<char>(key.key()));
    }
    EXPECT_EQ(key, bytes.first(index)) << "and then from the beginning";
    EXPECT_EQ(std::set(order.begin(), order.end()).size(), 256u);
    orders.insert(order);
  }
  EXPECT_EQ(orders.size(), 500u);
}

TEST(KeyBytes, WithoutTheKey_ExpectNothingToBeForetold) {
  const KeyBytes ours({1, 2});
  const KeyBytes others({1, 3});
  int same = 0;
  int plus_one = 0;
  for (uint32_t index = 1; index <= 4096; ++index) {
    same += ours.first(index) == others.first(index) ? 1 : 0;
    const MemoryKey first = ours.first(index);
    plus_one += static_cast<uint8_t>(ours.after(first).key() - first.key()) == 1 ? 1 : 0;
  }
  EXPECT_LT(same, 48) << "16 by chance";
  EXPECT_LT(plus_one, 48);
}

class KeysComeBack : public testing::Test {
 protected:
  MemoryKey register_one() {
    return table_.register_user({.domain = kOurs, .address = memory_.data(), .length = 64, .iova = 0})
        .value()
        .lkey;
  }

  BusSpace bus_{{}};
  std::vector<std::byte> memory_ = std::vector<std::byte>(64);
  LockedMemory locked_;
  RegionTable table_{{.entries_max = 4, .key = HashKey{8, 9}, .locked_memory = &locked_, .bus_space = &bus_}};
};

TEST_F(KeysComeBack, UserRegions_ExpectNoKeyTwiceIn256OfItsIndex) {
  std::map<MemoryKey, uint32_t> uses_at;  // how often the index had been used
  std::map<uint32_t, uint32_t> uses;
  for (int i = 0; i < 3000; ++i) {
    const MemoryKey key = register_one();
    const uint32_t now = uses[key.index()]++;
    if (const auto known = uses_at.find(key); known != uses_at.end()) {
      ASSERT_GE(now - known->second, 256u);
    }
    uses_at[key] = now;
    ASSERT_TRUE(table_.deregister(key).ok());
  }
  EXPECT_EQ(uses.size(), 3u) << "all indexes come back";
}

/// A program binds under a few keys of its choice, again and again, and keeps one of them in mind.
TEST_F(KeysComeBack, KeysThatTheConsumerChose_ExpectTheStackNotToGiveThemToAnother) {
  RegionTable table({.entries_max = 1u << 15, .key = HashKey{8, 9}, .bus_space = &bus_});
  const Pages pages(bus_, 1);
  std::set<MemoryKey> chosen;
  for (int i = 0; i < 5000; ++i) {
    const auto region = taken(FastRegion::make(table, kOurs, 1));
    ASSERT_FALSE(chosen.contains(region->first_key())) << "round " << i;
    // The byte behind the last one was in use before.
    for (const uint8_t byte : {uint8_t{0x42}, uint8_t{0x41}}) {
      const MemoryKey key = MemoryKey::make(region->first_key().index(), byte);
      chosen.insert(key);
      PageList list(bus_, 1);
      list.addresses()[0] = pages.addresses[0];
      ASSERT_EQ(list.post({.pages = 1, .page_shift = 12, .length = kPage}, kRemoteRead), 0);
      ASSERT_EQ(bind_fast_region(
                    table, {.region = region->first_key(), .key = key, .access = kRemoteRead, .pages = &list},
                    kOurs),
                Outcome::kDone);
      Invalidation invalidation;
      ASSERT_EQ(invalidation.begin(table, key, {kOurs, {}}), Invalidation::Answer::kOver);
    }
    // A user region that comes and goes meanwhile.
    const MemoryKey user =
        table.register_user({.domain = kOurs, .address = memory_.data(), .length = 64}).value().lkey;
    ASSERT_FALSE(chosen.contains(user)) << "round " << i;
    ASSERT_TRUE(table.deregister(user).ok());
    ASSERT_TRUE(region->end().ok());
  }
}

TEST_F(KeysComeBack, KeysThatTheConsumerChose_ExpectTheIndexToRememberAll256) {
  KeyHistory history;
  const RegionBinding unbound = unbound_entry({}, RegionKind::kWindow2A, kOurs, nullptr);
  RegionTable table({.entries_max = 2, .key = HashKey{8, 9}});
  std::set<uint8_t> used;
  for (int i = 0; i < 128; ++i) {
    const MemoryKey key = table.make_entry_for_consumer(unbound, history).value();
    ASSERT_FALSE(used.contains(key.key()));
    used.insert(key.key());
    history.add(key.key());
    uint8_t other = 0;  // what the consumer chooses beside it
    while (used.contains(other)) ++other;
    used.insert(other);
    history.add(other);
    table.write_entry({.key = MemoryKey::make(1, other)});
    table.give_back(MemoryKey::make(1, other), history);
  }
  EXPECT_EQ(used.size(), 256u);
  EXPECT_TRUE(table.make_entry_for_consumer(unbound, history).ok()) << "from then on they come again";
}

TEST_F(KeysComeBack, FmrMappings_ExpectKeysThatAreNotCounted) {
  const auto fmr = taken(Fmr::make(table_, {.domain = kOurs, .access = kRemoteRead, .maps_max = 255}));
  const Pages pages(bus_, 1);
  std::set<MemoryKey> keys{fmr->key()};
  int plus_one = 0;
  for (int i = 0; i < 255; ++i) {
    const MemoryKey before = fmr->key();
    ASSERT_TRUE(fmr->map(pages.addresses, 0).ok());
    ASSERT_TRUE(keys.insert(fmr->key()).second);
    plus_one += static_cast<uint8_t>(fmr->key().key() - before.key()) == 1 ? 1 : 0;
  }
  EXPECT_LT(plus_one, 10);
  Fmr* const one = fmr.get();
  ASSERT_TRUE(Fmr::unmap({&one, 1}).ok());
  ASSERT_TRUE(fmr->end().ok());
}

}  // namespace
}  // namespace uroce::mem
