// Fast-registration regions as pollers bind and invalidate them. The table of refusals is below.
#include "mem/regions/fast_region.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/values/random.h"
#include "mem/regions/invalidation.h"
#include "mem/regions/key_breaking.h"
#include "tests/unit/mem/other_poller.h"
#include "tests/unit/mem/turns.h"

namespace uroce::mem {
namespace {

constexpr uint64_t kPage = 4096;
constexpr uint8_t kShift = 12;
constexpr uint64_t kIova = 0x123456;
constexpr Access kAll = kLocalWrite | kRemoteWrite | kRemoteRead;
constexpr DomainId kDomain{3};
constexpr KeyUser kUser{.domain = kDomain, .queue_pair = {}};

class FastRegionTest : public ::testing::TestWithParam<uint64_t> {
 protected:
  BusSpace bus{{.offset = GetParam()}};
  testing::OtherPoller other;
  RegionTable table{{.entries_max = 64, .grace_period = &other, .bus_space = &bus}};
  std::vector<std::byte> memory = std::vector<std::byte>(16 * kPage);
  std::byte* const first = memory.data() + (kPage - reinterpret_cast<uintptr_t>(memory.data()) % kPage);
  std::unique_ptr<FastRegion> region = std::move(FastRegion::make(table, kDomain, 4).value());
  PageList list{bus, 4};
  Invalidation invalidation;

  ~FastRegionTest() override {
    if (region != nullptr) {
      EXPECT_TRUE(region->end().ok());
    }
  }

  /// Posts `pages` pages, each mapped for itself, from the last to the first.
  std::vector<uint64_t> post_pages(uint32_t pages, uint64_t offset = 0) {
    std::vector<uint64_t> buses;
    for (uint32_t i = 0; i < pages; ++i) {
      buses.push_back(bus.map(first + (pages - 1 - i) * kPage, kPage, Direction::kBidirectional).value());
      list.addresses()[i] = buses[i];
    }
    EXPECT_EQ(list.post({pages, kShift, offset, pages * kPage - offset}, kAll), 0);
    return buses;
  }
  [[nodiscard]] MemoryKey key(uint8_t low) const { return MemoryKey::make(region->first_key().index(), low); }
  Outcome bind(MemoryKey wanted, Access access = kAll) {
    return bind_fast_region(table, {region->first_key(), wanted, access, kIova, &list}, kDomain);
  }
  [[nodiscard]] Fault fault(MemoryKey wanted, uint64_t length = 1, Access needed = kRemoteWrite) const {
    return table.resolve(wanted, kUser, kIova, length, needed).fault();
  }
  int unmap(uint64_t address) {
    const BusRange range{address, kPage};
    const Status status = bus.unmap({&range, 1}, Direction::kBidirectional);
    return status.ok() ? 0 : status.error().code;
  }
};

INSTANTIATE_TEST_SUITE_P(Offsets, FastRegionTest, ::testing::Values(0, uint64_t{7} << 21),
                         [](const auto& of) { return of.param == 0 ? "none" : "some"; });

using Answer = Invalidation::Answer;

TEST_P(FastRegionTest, BindAndInvalidate_ExpectTheKeyToResolveInBetween) {
  EXPECT_EQ(fault(region->first_key()), Fault::kState);
  const std::vector<uint64_t> buses = post_pages(3, 100);
  ASSERT_EQ(bind(key(0xAB)), Outcome::kDone);
  EXPECT_FALSE(list.posted());
  EXPECT_EQ(fault(region->first_key()), Fault::kKey);

  const Binding binding = table.resolve(key(0xAB), kUser, kIova, 3 * kPage - 100, kRemoteWrite);
  ASSERT_TRUE(binding.ok());
  EXPECT_EQ(binding.piece(0).data, first + 2 * kPage + 100);
  EXPECT_EQ(binding.piece(0).length, kPage - 100);
  EXPECT_EQ(binding.piece(kPage - 100).data, first + kPage);
  EXPECT_EQ(fault(key(0xAB), 3 * kPage - 99), Fault::kBounds);
  for (const uint64_t address : buses) EXPECT_EQ(unmap(address), EBUSY);

  EXPECT_EQ(invalidation.begin(table, key(0xAB), kUser), Answer::kOver);
  EXPECT_EQ(fault(key(0xAB)), Fault::kState);
  for (const uint64_t address : buses) EXPECT_EQ(unmap(address), 0);

  post_pages(1);
  EXPECT_EQ(bind(key(0xAC)), Outcome::kDone);
  EXPECT_EQ(fault(key(0xAB)), Fault::kKey);
  EXPECT_EQ(fault(key(0xAC)), Fault::kNone);
}

/// As `uroce fault break --key` does, whichever way it was made.
TEST_P(FastRegionTest, BreakItsKey_ExpectItsPagesFreeAndItToBeBoundAnew) {
  EXPECT_EQ(break_key(table, region->first_key(), invalidation), Answer::kRefused) << "not bound";
  const std::vector<uint64_t> buses = post_pages(2);
  ASSERT_EQ(bind(key(0xAB)), Outcome::kDone);
  EXPECT_EQ(break_key(table, key(0xAC), invalidation), Answer::kRefused) << "another key";
  EXPECT_EQ(break_key(table, key(0xAB), invalidation), Answer::kOver);
  EXPECT_EQ(fault(key(0xAB)), Fault::kState);
  for (const uint64_t address : buses) EXPECT_EQ(unmap(address), 0);
  post_pages(1);
  EXPECT_EQ(bind(key(0xAC)), Outcome::kDone);
  EXPECT_EQ(fault(key(0xAC)), Fault::kNone);
}

TEST_P(FastRegionTest, BindNeighbouringPages_ExpectOnePiece) {
  const uint64_t address = bus.map(first, 4 * kPage, Direction::kBidirectional).value();
  for (uint32_t i = 0; i < 4; ++i) list.addresses()[i] = address + i * kPage;
  ASSERT_EQ(list.post({4, kShift, 8, 4 * kPage - 8}, kAll), 0);
  ASSERT_EQ(bind(key(1)), Outcome::kDone);
  const Piece piece = table.resolve(key(1), kUser, kIova, 4 * kPage - 8, kRemoteRead).piece(0);
  EXPECT_EQ(piece.data, first + 8);
  EXPECT_EQ(piece.length, 4 * kPage - 8);
}

TEST_P(FastRegionTest, BindWhatIsMappedForWriting_ExpectItNotToBeRead) {
  list.addresses()[0] = bus.map(first, kPage, Direction::kFromDevice).value();
  ASSERT_EQ(list.post({1, kShift, 0, kPage}, kLocalWrite | kRemoteWrite), 0);
  ASSERT_EQ(bind(key(1), kLocalWrite | kRemoteWrite), Outcome::kDone);
  EXPECT_EQ(fault(key(1), 1, kRemoteWrite), Fault::kNone);
  EXPECT_EQ(fault(key(1), 1, kLocalRead), Fault::kAccess);
}

/// While another poller may still be at the memory, the key is dead, and the pages stay.
TEST_P(FastRegionTest, InvalidateDuringAnothersTurn_ExpectItToBePendingUntilItsEnd) {
  const uint64_t address = post_pages(1)[0];
  ASSERT_EQ(bind(key(1)), Outcome::kDone);
  other.begin_turn();
  ASSERT_EQ(invalidation.begin(table, key(1), kUser), Answer::kPending);
  EXPECT_EQ(fault(key(1)), Fault::kState);
  EXPECT_EQ(unmap(address), EBUSY);
  EXPECT_FALSE(invalidation.over(table));
  // Bound anew it cannot be either: a poller may be reading the old list of pages.
  post_pages(1);
  EXPECT_EQ(bind(key(2)), Outcome::kRefused);
  EXPECT_TRUE(list.posted());
  other.end_turn();
  EXPECT_TRUE(invalidation.over(table));
  EXPECT_EQ(unmap(address), 0);
  EXPECT_EQ(bind(key(2)), Outcome::kDone);
}

TEST_P(FastRegionTest, WhileAnotherHasTheRegion_ExpectBusy) {
  post_pages(1);
  region->lock();
  EXPECT_EQ(bind(key(1)), Outcome::kBusy);
  region->unlock();
  ASSERT_EQ(bind(key(1)), Outcome::kDone);
  region->lock();
  EXPECT_EQ(invalidation.begin(table, key(1), kUser), Answer::kBusy);
  EXPECT_EQ(fault(key(1)), Fault::kNone);
  region->unlock();
  other.begin_turn();
  ASSERT_EQ(invalidation.begin(table, key(1), kUser), Answer::kPending);
  other.end_turn();
  region->lock();
  EXPECT_FALSE(invalidation.over(table));
  region->unlock();
  EXPECT_TRUE(invalidation.over(table));
}

/// What REG_MR refuses: the work request fails, the list is to be given back.
TEST_P(FastRegionTest, BindRefusals) {
  BusSpace& space = bus;
  PageList longer(space, 8);
  const uint64_t address = bus.map(first, 8 * kPage, Direction::kBidirectional).value();
  for (uint32_t i = 0; i < 8; ++i) longer.addresses()[i] = address + i * kPage;
  post_pages(1);
  std::vector<std::byte> user_memory(64);
  const MemoryKey user = table.register_user({kDomain, user_memory.data(), 64, 0, kAll}).value().lkey;
  const MemoryKey free{(table.read_entry(user).key.index() + 9) << 8};
  const auto refused = [&](MemoryKey of, MemoryKey wanted, DomainId domain, PageList& pages) {
    return bind_fast_region(table, {of, wanted, kAll, kIova, &pages}, domain) == Outcome::kRefused;
  };
  EXPECT_TRUE(refused(free, free, kDomain, list)) << "no such region";
  EXPECT_TRUE(refused(user, user, kDomain, list)) << "a region of another kind";
  EXPECT_TRUE(refused(region->first_key(), key(1), {4}, list)) << "another domain";
  EXPECT_TRUE(refused(region->first_key(), MemoryKey{key(1).value + 256}, kDomain, list))
      << "another's index";
  ASSERT_EQ(longer.post({5, kShift, 0, 5 * kPage}, kAll), 0);
  EXPECT_TRUE(refused(region->first_key(), key(1), kDomain, longer)) << "too many pages";
  longer.give_back();
  ASSERT_EQ(bind(key(1)), Outcome::kDone);
  ASSERT_EQ(longer.post({1, kShift, 0, 1}, kAll), 0);
  EXPECT_TRUE(refused(region->first_key(), key(2), kDomain, longer)) << "bound";
  longer.give_back();
  EXPECT_EQ(fault(key(1)), Fault::kNone);
  EXPECT_TRUE(table.deregister(user).ok());
}

/// What LOCAL_INV, READ with invalidate and SEND with invalidate refuse.
TEST_P(FastRegionTest, InvalidationRefusals) {
  std::vector<std::byte> user_memory(64);
  const MemoryKey user = table.register_user({kDomain, user_memory.data(), 64, 0, kAll}).value().lkey;
  const MemoryKey never{(user.index() + 9) << 8};
  const MemoryKey beyond = MemoryKey::make(0xFFFFFF, 1);
  const auto refused = [&](MemoryKey wanted, KeyUser of = kUser) {
    const bool refuses = Invalidation::refuses(table, wanted, of);
    EXPECT_EQ(refuses, invalidation.begin(table, wanted, of) == Answer::kRefused);
    return refuses;
  };
  EXPECT_TRUE(refused(never)) << "no such key";
  EXPECT_TRUE(refused(beyond)) << "an index that no region can have yet";
  EXPECT_TRUE(refused(user)) << "a user region";
  EXPECT_FALSE(refused(region->first_key())) << "not bound";
  post_pages(1);
  ASSERT_EQ(bind(key(7)), Outcome::kDone);
  EXPECT_TRUE(refused(key(8))) << "another key of the index";
  EXPECT_TRUE(refused(key(7), {{4}, {}})) << "another domain";
  region->windows = 1;
  EXPECT_EQ(invalidation.begin(table, key(7), kUser), Answer::kRefused) << "windows over it";
  region->windows = 0;
  EXPECT_EQ(fault(key(7)), Fault::kNone);
  EXPECT_EQ(invalidation.begin(table, key(7), kUser), Answer::kOver);
  EXPECT_FALSE(refused(key(7))) << "invalidated already";
  EXPECT_TRUE(refused(key(8))) << "another key of the index, again";
  EXPECT_TRUE(table.deregister(user).ok());
}

/// The second that invalidates it is not over before the first one, and changes nothing.
TEST_P(FastRegionTest, InvalidatedAlready_ExpectTheSecondToWaitForTheFirst) {
  const uint64_t address = post_pages(1).at(0);
  ASSERT_EQ(bind(key(7)), Outcome::kDone);
  other.begin_turn();
  EXPECT_EQ(invalidation.begin(table, key(7), kUser), Answer::kPending);
  EXPECT_TRUE(invalidation.ended_binding());
  Invalidation again;
  EXPECT_EQ(again.begin(table, key(7), kUser), Answer::kBusy);
  other.end_turn();
  EXPECT_TRUE(invalidation.over(table));
  EXPECT_EQ(again.begin(table, key(7), kUser), Answer::kOver);
  EXPECT_FALSE(again.ended_binding());
  EXPECT_EQ(fault(key(7)), Fault::kState);
  EXPECT_EQ(unmap(address), 0);
  post_pages(1);
  EXPECT_EQ(bind(key(8)), Outcome::kDone);
}

TEST_P(FastRegionTest, PostRefusals) {
  const PageExtent extent{1, kShift, 0, kPage};
  EXPECT_EQ(region->check(extent, 0, kAll), 0);
  EXPECT_EQ(region->check(extent, 0, kRemoteWrite), EINVAL);
  EXPECT_EQ(region->check(extent, 0, Access(1u << 12)), EINVAL);
  EXPECT_EQ(region->check(extent, 0, kAll | kZeroBased), EINVAL);
  EXPECT_EQ(region->check(extent, 0, kAll | kOnDemand), EOPNOTSUPP);
  EXPECT_EQ(region->check({5, kShift, 0, kPage}, 0, kAll), EINVAL);
  EXPECT_EQ(region->check({1, kShift, 0, 0}, 0, kAll), EINVAL);
  EXPECT_EQ(region->check(extent, UINT64_MAX - kPage + 2, kAll), EINVAL);
  EXPECT_EQ(region->check(extent, UINT64_MAX - kPage + 1, kAll), 0);
}

TEST_P(FastRegionTest, MakeRefusals) {
  EXPECT_EQ(FastRegion::make(table, {}, 1).error().code, EINVAL);
  EXPECT_EQ(FastRegion::make(table, kDomain, 0).error().code, EINVAL);
  EXPECT_EQ(FastRegion::make(table, kDomain, FastRegion::kPagesMax + 1).error().code, EINVAL);
  std::vector<std::unique_ptr<FastRegion>> all;
  for (;;) {
    Result<std::unique_ptr<FastRegion>> made = FastRegion::make(table, kDomain, 1);
    if (!made) {
      EXPECT_EQ(made.error().code, ENOMEM);
      break;
    }
    all.push_back(std::move(*made));
  }
  for (const auto& one : all) EXPECT_TRUE(one->end().ok());
}

TEST_P(FastRegionTest, EndInEveryState_ExpectThePagesFreeAndTheKeyDead) {
  const uint64_t bound = post_pages(1)[0];
  ASSERT_EQ(bind(key(1)), Outcome::kDone);
  region->windows = 1;
  EXPECT_EQ(region->end().error().code, EBUSY);
  EXPECT_EQ(fault(key(1)), Fault::kNone);
  region->windows = 0;
  EXPECT_TRUE(region->end().ok());
  EXPECT_EQ(fault(key(1)), Fault::kKey);
  EXPECT_EQ(unmap(bound), 0);

  region = std::move(FastRegion::make(table, kDomain, 4).value());
  const uint64_t invalidated = post_pages(1)[0];
  ASSERT_EQ(bind(key(1)), Outcome::kDone);
  other.begin_turn();
  ASSERT_EQ(invalidation.begin(table, key(1), kUser), Answer::kPending);
  EXPECT_TRUE(region->end().ok());
  EXPECT_EQ(unmap(invalidated), 0);
  region.reset();
  other.end_turn();
  EXPECT_TRUE(invalidation.over(table));  // though the region is no more
}

/// One poller binds a region to one page or the other and invalidates it; two others resolve its keys and
/// write there. When an invalidation is over, the page is the first poller's alone: it writes without any
/// synchronisation of its own and expects its bytes to stay.
TEST(FastRegionConcurrency, InvalidateWhilePollersWrite_ExpectNoByteTouchedAfterwards) {
  const uint64_t seed = 4711;
  SCOPED_TRACE("seed " + std::to_string(seed));
  constexpr int kRounds = 6000;
  constexpr size_t kPollers = 3;
  Turns turns(kPollers);
  BusSpace bus({.grace_period = &turns});
  RegionTable table({.entries_max = 64, .grace_period = &turns, .bus_space = &bus});
  std::unique_ptr<FastRegion> region = std::move(FastRegion::make(table, kDomain, 2).value());
  std::atomic<uint32_t> newest{region->first_key().value};
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> resolved{0};

  std::vector<std::thread> readers;
  for (size_t poller = 1; poller < kPollers; ++poller) {
    readers.emplace_back([&, poller] {
      const Turns::Self self(poller);
      Random random(seed + poller);
      while (!stop.load()) {
        turns.enter(poller);
        for (int i = 0; i < 4; ++i) {
          const MemoryKey key{newest.load()};
          const Binding binding = table.resolve(key, kUser, kIova, 2 * kPage, kRemoteWrite);
          if (!binding.ok()) continue;
          if (random.chance(1, 16)) std::this_thread::yield();
          for (uint64_t at = 0; at < 2 * kPage; at += kPage)
            __atomic_store_n(reinterpret_cast<uint8_t*>(binding.piece(at).data), 0xEE, __ATOMIC_RELAXED);
          resolved.fetch_add(1);
        }
        turns.leave(poller);
        std::this_thread::yield();
      }
    });
  }

  const Turns::Self self(0);
  std::vector<std::byte> memory(5 * kPage);
  std::byte* const first = memory.data() + (kPage - reinterpret_cast<uintptr_t>(memory.data()) % kPage);
  const uint64_t bus_address = bus.map(first, 4 * kPage, Direction::kBidirectional).value();
  PageList list(bus, 2);
  Invalidation invalidation;
  for (int round = 0; round < kRounds || resolved.load() < 1000; ++round) {
    const uint64_t page = static_cast<uint64_t>(round % 3);
    list.addresses()[0] = bus_address + (page + 1) * kPage;
    list.addresses()[1] = bus_address + (round % 2 == 0 ? page * kPage : (page + 1) * kPage);
    ASSERT_EQ(list.post({2, kShift, 0, 2 * kPage}, kAll), 0);
    const MemoryKey key = MemoryKey::make(region->first_key().index(), static_cast<uint8_t>(round));
    turns.enter(0);
    ASSERT_EQ(bind_fast_region(table, {region->first_key(), key, kAll, kIova, &list}, kDomain),
              Outcome::kDone);
    newest.store(key.value);
    turns.leave(0);
    if (round % 4 == 0) std::this_thread::yield();
    turns.enter(0);
    const Answer answer = invalidation.begin(table, key, kUser);
    ASSERT_TRUE(answer == Answer::kOver || answer == Answer::kPending);
    turns.leave(0);
    for (bool over = answer == Answer::kOver; !over;) {
      turns.enter(0);
      over = invalidation.over(table);
      turns.leave(0);
      std::this_thread::yield();
    }
    for (uint64_t at = 0; at < 4 * kPage; at += kPage)
      first[at] = static_cast<std::byte>(round);  // ours alone
    if (round % 16 == 0) std::this_thread::yield();
    for (uint64_t at = 0; at < 4 * kPage; at += kPage) ASSERT_EQ(first[at], static_cast<std::byte>(round));
  }
  stop.store(true);
  for (std::thread& reader : readers) reader.join();
  EXPECT_TRUE(region->end().ok());
}

}  // namespace
}  // namespace uroce::mem
