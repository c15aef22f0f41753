#include "mem/regions/fmr_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/values/random.h"
#include "pages.h"
#include "turns.h"

namespace uroce::mem {
namespace {

constexpr DomainId kOurs{1};
constexpr uint64_t kIova = 0x70000;

class FmrPoolTest : public testing::Test {
 protected:
  FmrPool::Options options(uint32_t size, bool cache, uint32_t maps_max = 2) {
    return {.fmr = {.domain = kOurs, .access = kRemoteRead, .pages_max = 2, .maps_max = maps_max},
            .size = size,
            .dirty_watermark = size,
            .cache = cache};
  }
  std::unique_ptr<FmrPool> make(const FmrPool::Options& wanted) {
    return taken(FmrPool::make(table_, wanted));
  }
  std::span<const uint64_t> page(size_t i) const { return {&pages_.addresses[i], 1}; }
  static int code(const Status& status) { return status.ok() ? 0 : status.error().code; }
  int refusal(FmrPool& pool, std::span<const uint64_t> pages, uint64_t iova = kIova) {
    const Result<PooledFmr*> mapped = pool.map(pages, iova);
    return mapped.ok() ? 0 : mapped.error().code;
  }
  /// The first byte under a key.
  std::byte* at(MemoryKey key, uint64_t iova = kIova) {
    const Binding binding = table_.resolve(key, {kOurs, {}}, iova, 1, kRemoteRead);
    return binding.ok() ? binding.piece(0).data : nullptr;
  }
  int unmap_on_bus(size_t i) {
    const BusRange range{pages_.addresses[i], kPage};
    return code(bus_.unmap({&range, 1}, Direction::kBidirectional));
  }

  BusSpace bus_{{.offset = uint64_t{1} << 44}};
  RegionTable table_{{.entries_max = 64, .bus_space = &bus_}};
  Pages pages_{bus_, 8};
};

TEST_F(FmrPoolTest, SamePagesAgain_ExpectTheSameMappingFromTheCache) {
  const auto pool = make(options(4, true));
  PooledFmr* first = pool->map(page(0), kIova).value();
  PooledFmr* other = pool->map(page(1), kIova).value();
  EXPECT_EQ(at(first->key()), pages_.at(0));
  EXPECT_EQ(at(other->key()), pages_.at(1));
  EXPECT_EQ(pool->map(page(0), kIova).value(), first);
  EXPECT_NE(pool->map(page(0), kIova + kPage).value(), first) << "another address";
  const uint64_t two[] = {pages_.addresses[0], pages_.addresses[1]};
  EXPECT_NE(pool->map(two, kIova).value(), first) << "more pages";
  const FmrPool::Statistics statistics = pool->statistics();
  EXPECT_EQ(statistics.hits, 1u);
  EXPECT_EQ(statistics.misses, 4u);
  EXPECT_EQ(statistics.maps, 4u);
  EXPECT_EQ(statistics.in_use, 4u);
  EXPECT_EQ(statistics.free, 0u);

  // Counted: it stays in use until both have given it back, and is a hit even then.
  const MemoryKey key = first->key();
  EXPECT_EQ(code(pool->unmap(*first)), 0);
  EXPECT_EQ(pool->statistics().in_use, 4u);
  EXPECT_EQ(code(pool->unmap(*first)), 0);
  EXPECT_EQ(pool->statistics().in_use, 3u);
  EXPECT_EQ(code(pool->unmap(*first)), EINVAL) << "given back once too often";
  EXPECT_EQ(pool->map(page(0), kIova).value()->key(), key);
  EXPECT_EQ(pool->statistics().hits, 2u);
}

TEST_F(FmrPoolTest, NoCache_ExpectAnFmrForEach) {
  const auto pool = make(options(4, false));
  PooledFmr* first = pool->map(page(0), kIova).value();
  EXPECT_NE(pool->map(page(0), kIova).value(), first);
  EXPECT_EQ(code(pool->unmap(*first)), 0);
  ASSERT_TRUE(pool->map(page(0), kIova).ok());
  EXPECT_EQ(pool->statistics().hits, 0u);
  EXPECT_EQ(pool->statistics().misses, 3u);
}

TEST_F(FmrPoolTest, GivenBackLongestAgo_ExpectItToBeMappedToOthersFirst) {
  const auto pool = make(options(2, true, 8));
  PooledFmr* a = pool->map(page(0), kIova).value();
  PooledFmr* b = pool->map(page(1), kIova).value();
  EXPECT_EQ(refusal(*pool, page(2)), EAGAIN);
  ASSERT_TRUE(pool->unmap(*b).ok());
  ASSERT_TRUE(pool->unmap(*a).ok());
  PooledFmr* c = pool->map(page(2), kIova).value();
  EXPECT_EQ(c, b);
  EXPECT_EQ(at(c->key()), pages_.at(2));
  EXPECT_EQ(pool->map(page(0), kIova).value(), a);
  EXPECT_EQ(pool->statistics().hits, 1u);
  // What was mapped away is not found any more.
  ASSERT_TRUE(pool->unmap(*a).ok());
  EXPECT_EQ(at(pool->map(page(1), kIova).value()->key()), pages_.at(1));
  EXPECT_EQ(pool->statistics().hits, 1u);
}

TEST_F(FmrPoolTest, MapsUsedUp_ExpectDirtyAndAFlushAtTheWatermark) {
  int told = 0;
  FmrPool::Options wanted = options(4, true, 1);
  wanted.dirty_watermark = 3;
  wanted.flushed = [&] { ++told; };
  const auto pool = make(wanted);
  std::vector<PooledFmr*> fmrs;
  for (size_t i = 0; i < 4; ++i) fmrs.push_back(pool->map(page(i), kIova).value());
  ASSERT_TRUE(pool->unmap(*fmrs[0]).ok());
  ASSERT_TRUE(pool->unmap(*fmrs[1]).ok());
  EXPECT_EQ(pool->statistics().dirty, 2u);
  EXPECT_EQ(pool->statistics().free, 0u);
  EXPECT_EQ(at(fmrs[0]->key()), pages_.at(0)) << "lazily";
  EXPECT_EQ(told, 0);
  // A dirty one is in the cache like any other.
  EXPECT_EQ(pool->map(page(0), kIova).value(), fmrs[0]);
  EXPECT_EQ(pool->statistics().dirty, 1u);
  ASSERT_TRUE(pool->unmap(*fmrs[0]).ok());
  ASSERT_TRUE(pool->unmap(*fmrs[2]).ok());
  EXPECT_EQ(told, 1);
  const FmrPool::Statistics statistics = pool->statistics();
  EXPECT_EQ(statistics.flushes, 1u);
  EXPECT_EQ(statistics.unmaps, 3u);
  EXPECT_EQ(statistics.dirty, 0u);
  EXPECT_EQ(statistics.free, 3u);
  EXPECT_EQ(statistics.in_use, 1u);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(at(fmrs[i]->key()), nullptr);
  EXPECT_EQ(at(fmrs[3]->key()), pages_.at(3)) << "in use, not to be flushed";
  ASSERT_TRUE(pool->map(page(0), kIova).ok());
  EXPECT_EQ(pool->statistics().hits, 1u) << "not in the cache after the flush";
}

TEST_F(FmrPoolTest, NoneFreeButDirty_ExpectThemToBeFlushedForWhoNeedsOne) {
  FmrPool::Options wanted = options(2, false, 1);
  const auto pool = make(wanted);
  PooledFmr* a = pool->map(page(0), kIova).value();
  ASSERT_TRUE(pool->map(page(1), kIova).ok());
  ASSERT_TRUE(pool->unmap(*a).ok());
  EXPECT_EQ(pool->statistics().dirty, 1u);
  ASSERT_TRUE(pool->map(page(2), kIova).ok());
  EXPECT_EQ(pool->statistics().flushes, 1u);
  EXPECT_EQ(refusal(*pool, page(3)), EAGAIN);
}

TEST_F(FmrPoolTest, Flush_ExpectAllUnmappedThatAreNotInUse) {
  int told = 0;
  FmrPool::Options wanted = options(4, true, 8);
  wanted.flushed = [&] { ++told; };
  const auto pool = make(wanted);
  PooledFmr* kept = pool->map(page(0), kIova).value();
  PooledFmr* given = pool->map(page(1), kIova).value();
  ASSERT_TRUE(pool->unmap(*given).ok());
  EXPECT_EQ(unmap_on_bus(1), EBUSY) << "still covered";
  ASSERT_TRUE(pool->flush().ok());
  EXPECT_EQ(told, 1);
  EXPECT_EQ(at(given->key()), nullptr);
  EXPECT_EQ(at(kept->key()), pages_.at(0));
  EXPECT_EQ(unmap_on_bus(1), 0);
  EXPECT_EQ(unmap_on_bus(0), EBUSY);
  ASSERT_TRUE(pool->flush().ok());
  EXPECT_EQ(told, 1) << "nothing to do";
  EXPECT_EQ(pool->statistics().flushes, 1u);
}

TEST_F(FmrPoolTest, RefusedMap_ExpectTheErrnoAndTheFmrBack) {
  const auto pool = make(options(1, true));
  PooledFmr* fmr = pool->map(page(0), kIova).value();
  ASSERT_TRUE(pool->unmap(*fmr).ok());
  EXPECT_EQ(refusal(*pool, {}), EINVAL);
  EXPECT_EQ(refusal(*pool, pages_.addresses), EINVAL) << "too many";
  EXPECT_EQ(refusal(*pool, page(1), kIova + 1), EINVAL);
  const uint64_t nowhere[] = {pages_.addresses[0] + (uint64_t{1} << 30)};
  EXPECT_EQ(refusal(*pool, nowhere), EFAULT);
  EXPECT_EQ(pool->statistics().free, 1u);
  EXPECT_EQ(pool->map(page(0), kIova).value(), fmr) << "what it was mapped to is still in the cache";
  EXPECT_EQ(pool->statistics().hits, 1u);
  EXPECT_EQ(pool->statistics().misses, 1u);
}

TEST_F(FmrPoolTest, RefusedPools_ExpectTheErrnoAndNothingLeft) {
  const auto refusal = [&](auto change) {
    FmrPool::Options wanted = options(4, true);
    change(wanted);
    const auto made = FmrPool::make(table_, wanted);
    return made.ok() ? 0 : made.error().code;
  };
  using O = FmrPool::Options;
  EXPECT_EQ(refusal([](O& o) { o.size = 0; }), EINVAL);
  EXPECT_EQ(refusal([](O& o) { o.size = FmrPool::kSizeMax + 1; }), EINVAL);
  EXPECT_EQ(refusal([](O& o) { o.dirty_watermark = 0; }), EINVAL);
  EXPECT_EQ(refusal([](O& o) { o.dirty_watermark = 5; }), EINVAL);
  EXPECT_EQ(refusal([](O& o) { o.fmr.maps_max = 0; }), EINVAL);
  EXPECT_EQ(refusal([](O& o) { o.fmr.access = kRemoteWrite; }), EINVAL);
  EXPECT_EQ(refusal([](O& o) { o.size = o.dirty_watermark = 64; }), ENOMEM) << "the table has 63";
  EXPECT_EQ(table_.regions(), 0u);
}

TEST_F(FmrPoolTest, End_ExpectEbusyWhileOneIsInUse) {
  const auto pool = make(options(4, true));
  const auto other = make(options(1, true));
  PooledFmr* fmr = pool->map(page(0), kIova).value();
  EXPECT_EQ(code(other->unmap(*fmr)), EINVAL) << "another pool's";
  EXPECT_EQ(code(pool->end()), EBUSY);
  EXPECT_EQ(at(fmr->key()), pages_.at(0));
  ASSERT_TRUE(pool->unmap(*fmr).ok());
  EXPECT_EQ(code(pool->end()), 0);
  EXPECT_EQ(code(other->end()), 0);
  EXPECT_EQ(table_.regions(), 0u);
  EXPECT_EQ(unmap_on_bus(0), 0);
}

/// What a user's flush function may do while the pool ends: an FMR that it maps then would live on without
/// its page list, and a peer could write wherever that memory is used next.
TEST_F(FmrPoolTest, FlushFunctionMapsWhileThePoolEnds_ExpectNoFmrForItAndNoKeyAfterwards) {
  std::unique_ptr<FmrPool> pool;
  std::vector<int> refusals;
  std::vector<MemoryKey> keys;
  auto wanted = options(2, true);
  wanted.flushed = [&] {
    const Result<PooledFmr*> mapped = pool->map(page(1), kIova);
    refusals.push_back(mapped.ok() ? 0 : mapped.error().code);
    if (!mapped) return;
    keys.push_back((*mapped)->key());
    ASSERT_TRUE(pool->unmap(**mapped).ok());
  };
  pool = make(wanted);
  PooledFmr* first = pool->map(page(0), kIova).value();
  keys.push_back(first->key());
  ASSERT_TRUE(pool->unmap(*first).ok());
  ASSERT_TRUE(pool->flush().ok());
  EXPECT_EQ(refusals, std::vector<int>{0}) << "a flush function may use the pool while it lives";
  EXPECT_EQ(code(pool->end()), 0);
  EXPECT_EQ(refusals, (std::vector<int>{0, EBUSY}));
  EXPECT_EQ(table_.regions(), 0u);
  pool.reset();
  for (const MemoryKey key : keys) EXPECT_EQ(at(key), nullptr);
  for (const size_t i : {0u, 1u}) EXPECT_EQ(unmap_on_bus(i), 0) << "nothing is pinned";
}

TEST_F(FmrPoolTest, FlushFunctionKeepsAnFmr_ExpectEbusyAndThePoolAlive) {
  std::unique_ptr<FmrPool> pool;
  PooledFmr* kept = nullptr;
  auto wanted = options(2, false, 1);
  wanted.dirty_watermark = 1;
  wanted.flushed = [&] {
    if (kept == nullptr) kept = pool->map(page(1), kIova).value();
  };
  pool = make(wanted);
  PooledFmr* first = pool->map(page(0), kIova).value();
  ASSERT_TRUE(pool->unmap(*first).ok()) << "reaches the watermark";
  ASSERT_NE(kept, nullptr);
  EXPECT_EQ(code(pool->end()), EBUSY);
  EXPECT_EQ(at(kept->key()), pages_.at(1));
  ASSERT_TRUE(pool->unmap(*kept).ok());
  EXPECT_EQ(code(pool->end()), 0);
  EXPECT_EQ(table_.regions(), 0u);
}

TEST_F(FmrPoolTest, FlushFunctionEndsThePool_ExpectEbusy) {
  std::unique_ptr<FmrPool> pool;
  std::vector<int> ends;
  auto wanted = options(2, false);
  wanted.flushed = [&] { ends.push_back(code(pool->end())); };
  pool = make(wanted);
  for (int i = 0; i < 2; ++i) {
    PooledFmr* fmr = pool->map(page(0), kIova).value();
    ASSERT_TRUE(pool->unmap(*fmr).ok());
    if (i == 0) {
      ASSERT_TRUE(pool->flush().ok());
    }
  }
  EXPECT_EQ(code(pool->end()), 0);
  EXPECT_EQ(ends, (std::vector<int>{EBUSY, EBUSY}));
}

/// Whatever a caller forgets, the entries go before the lists that they point to.
TEST_F(FmrPoolTest, DestroyedWithoutAnEnd_ExpectTheKeysDead) {
  auto pool = make(options(2, true));
  const MemoryKey used = pool->map(page(0), kIova).value()->key();
  PooledFmr* free = pool->map(page(1), kIova).value();
  const MemoryKey given_back = free->key();
  ASSERT_TRUE(pool->unmap(*free).ok());
  pool.reset();
  EXPECT_EQ(at(used), nullptr);
  EXPECT_EQ(at(given_back), nullptr);
  EXPECT_EQ(table_.regions(), 0u);
}

/// Threads map, look and give back while others flush and pollers turn; each sees its own pages under its
/// key.
TEST(FmrPoolConcurrency, ManyThreads_ExpectEachToSeeItsPages) {
  const uint64_t seed = 99;
  SCOPED_TRACE("seed " + std::to_string(seed));
  constexpr size_t kThreads = 3;
  constexpr int kRounds = 3000;
  Turns turns;
  BusSpace bus({.grace_period = &turns});
  RegionTable table({.entries_max = 64, .grace_period = &turns, .bus_space = &bus});
  const Pages pages(bus, 12);
  std::atomic<uint64_t> told{0};
  FmrPool::Options options{.fmr = {.domain = kOurs, .access = kRemoteRead, .maps_max = 3},
                           .size = 6,
                           .dirty_watermark = 3,
                           .cache = true,
                           .flushed = [&] { ++told; }};
  const auto pool = taken(FmrPool::make(table, options));
  std::atomic<bool> stop{false};
  std::thread poller([&] {
    while (!stop.load()) {
      turns.enter(0);
      std::this_thread::yield();
      turns.leave(0);
      std::this_thread::yield();
    }
  });
  std::vector<std::thread> threads;
  for (size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      Random random(seed + t);
      for (int round = 0; round < kRounds; ++round) {
        const size_t page = random.below(12);
        const Result<PooledFmr*> fmr = pool->map({&pages.addresses[page], 1}, kIova);
        ASSERT_TRUE(fmr.ok()) << "more FMRs than threads";
        const Binding binding = table.resolve((*fmr)->key(), {kOurs, {}}, kIova, kPage, kRemoteRead);
        ASSERT_TRUE(binding.ok());
        ASSERT_EQ(binding.piece(0).data, pages.at(page));
        if (random.chance(1, 16)) std::this_thread::yield();
        ASSERT_TRUE(pool->unmap(**fmr).ok());
        if (random.chance(1, 64)) {
          ASSERT_TRUE(pool->flush().ok());
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  stop.store(true);
  poller.join();
  const FmrPool::Statistics statistics = pool->statistics();
  EXPECT_EQ(statistics.hits + statistics.misses, kThreads * kRounds);
  EXPECT_EQ(statistics.flushes, told.load());
  EXPECT_EQ(statistics.in_use, 0u);
  EXPECT_EQ(statistics.free + statistics.dirty, 6u);
  EXPECT_GT(statistics.hits, 0u);
  EXPECT_TRUE(pool->end().ok());
}

}  // namespace
}  // namespace uroce::mem
