// Every way in which a key stops leading to memory, while four pollers of peers write through it and another
// thread registers and deregisters. When the call returns, not one further byte moves: the owner writes to
// the memory without any precaution then, which ThreadSanitizer sees.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "mem/regions/dma_region.h"
#include "mem/regions/fast_region.h"
#include "mem/regions/fmr.h"
#include "mem/regions/fmr_pool.h"
#include "mem/regions/invalidation.h"
#include "mem/regions/physical_region.h"
#include "mem/regions/window.h"
#include "pages.h"
#include "turns.h"

namespace uroce::mem {
namespace {

constexpr DomainId kOurs{1};
constexpr DomainId kThird{2};
constexpr KeyUser kUser{.domain = kOurs, .queue_pair = {17}};
constexpr uint64_t kIova = 0x40000;
constexpr Access kWritable = kLocalWrite | kRemoteWrite | kWindowBind;
constexpr size_t kBytes = 64;  // that a peer writes at a time

/// What peers are told.
struct Target {
  MemoryKey key;
  uint64_t address = 0;
  Access needed = kRemoteWrite;
};

class EndsTest : public testing::Test {
 protected:
  EndsTest() {
    for (size_t i = 0; i < Turns::kReaders; ++i) threads_.emplace_back([this, i] { poll(i); });
    threads_.emplace_back([this] { register_others(); });
  }
  ~EndsTest() override {
    stop_.store(true);
    for (std::thread& thread : threads_) thread.join();
  }

  /// Writes through whatever target there is, as a responder does.
  void poll(size_t reader) {
    while (!stop_.load()) {
      turns_.enter(reader);
      const Target target{{key_.load()}, address_.load(), Access(needed_.load())};
      const Binding binding = table_.resolve(target.key, kUser, target.address, kBytes, target.needed);
      if (binding.ok()) {
        // Peers write where they like; among themselves that is not checked.
        const Piece piece = binding.piece(0);
        for (size_t i = 0; i < piece.length; ++i)
          __atomic_store_n(reinterpret_cast<uint8_t*>(piece.data) + i, uint8_t{0x11}, __ATOMIC_RELAXED);
        written_.fetch_add(1);
      }
      turns_.leave(reader);
      turns_made_[reader].fetch_add(1);
      std::this_thread::yield();
    }
  }
  /// The third party: its memory is reached by no key but its own, whatever keys peers have in mind.
  void register_others() {
    std::array<uint8_t, kBytes> own{};
    while (!stop_.load()) {
      own.fill(0x33);
      const auto keys = table_.register_user({.domain = kThird,
                                              .address = reinterpret_cast<std::byte*>(own.data()),
                                              .length = own.size(),
                                              .iova = kIova,
                                              .access = kWritable});
      if (!keys || !table_.deregister(keys->lkey).ok()) std::abort();
      for (const uint8_t byte : own)
        if (byte != 0x33) spoilt_.store(true);
      std::this_thread::yield();
    }
  }

  void tell_peers(const Target& target) {
    address_.store(target.address);
    needed_.store(target.needed.bits());
    key_.store(target.key.value);
  }
  void await_writes() {
    const uint64_t before = written_.load();
    while (written_.load() < before + 8) std::this_thread::yield();
  }
  void await_turns() {
    for (std::atomic<uint64_t>& turns : turns_made_) {
      const uint64_t before = turns.load();
      while (turns.load() < before + 3) std::this_thread::yield();
    }
  }
  /// Lets peers write, ends that, and looks whether it is over.
  void expect_over(const std::string& name, const Target& target, std::byte* memory,
                   const std::function<void()>& end) {
    SCOPED_TRACE(name);
    tell_peers(target);
    await_writes();
    end();
    std::memset(memory, 0x77, kPage);
    await_turns();
    for (size_t i = 0; i < kPage; ++i) ASSERT_EQ(memory[i], std::byte{0x77}) << "byte " << i;
    EXPECT_FALSE(spoilt_.load()) << "another region's memory";
    tell_peers({});
    await_turns();  // the rest of the test is over before what it made goes
    ++ways_;
  }

  std::byte* memory(size_t page = 0) const { return pages_.at(page); }
  uint64_t bus(size_t page = 0) const { return pages_.addresses[page]; }
  MemoryKey make_user(Access access = kWritable) {
    return table_
        .register_user(
            {.domain = kOurs, .address = memory(), .length = kPage, .iova = kIova, .access = access})
        .value()
        .lkey;
  }
  std::unique_ptr<PhysicalRegion> make_physical() {
    const BusRange run{bus(), kPage};
    return taken(
        PhysicalRegion::make(table_, {&run, 1}, {.domain = kOurs, .access = kWritable, .iova = kIova}));
  }
  std::unique_ptr<Fmr> make_fmr() {
    auto fmr = taken(Fmr::make(
        table_, {.domain = kOurs, .access = kLocalWrite | kRemoteWrite, .pages_max = 1, .maps_max = 8}));
    EXPECT_TRUE(fmr->map({&pages_.addresses[0], 1}, kIova).ok());
    return fmr;
  }
  std::unique_ptr<FastRegion> make_fast() {
    auto region = taken(FastRegion::make(table_, kOurs, 1));
    PageList list(bus_, 1);
    list.addresses()[0] = bus();
    EXPECT_EQ(list.post({.pages = 1, .page_shift = 12, .length = kPage}, kWritable), 0);
    const FastBinding wanted{.region = region->first_key(),
                             .key = region->first_key(),
                             .access = kWritable,
                             .iova = kIova,
                             .pages = &list};
    EXPECT_EQ(bind_fast_region(table_, wanted, kOurs), Outcome::kDone);
    return region;
  }
  Bound bind(const Window& window, MemoryKey key, MemoryKey region, bool type1, uint64_t length = kPage) {
    const WindowBinding wanted{.window = window.first_key(),
                               .key = key,
                               .region = region,
                               .access = length != 0 ? kRemoteWrite : Access{},
                               .address = kIova,
                               .length = length,
                               .type1 = type1};
    return bind_window(table_, wanted, kUser);
  }
  /// As a queue pair's poller does it, from turn to turn.
  void invalidate(MemoryKey key) {
    Invalidation invalidation;
    const auto answer = invalidation.begin(table_, key, kUser);
    ASSERT_NE(answer, Invalidation::Answer::kRefused);
    while (!invalidation.over(table_)) std::this_thread::yield();
  }
  static Target at(MemoryKey key) { return {.key = key, .address = kIova}; }

  Turns turns_;
  BusSpace bus_{{.grace_period = &turns_}};
  LockedMemory locked_;
  RegionTable table_{{.entries_max = 1u << 15,
                      .key = HashKey{1, 2},
                      .grace_period = &turns_,
                      .locked_memory = &locked_,
                      .bus_space = &bus_}};
  Pages pages_{bus_, 3};
  std::atomic<uint32_t> key_{0};
  std::atomic<uint64_t> address_{0};
  std::atomic<uint32_t> needed_{0};
  std::atomic<uint64_t> written_{0};
  std::array<std::atomic<uint64_t>, Turns::kReaders> turns_made_{};
  std::atomic<bool> spoilt_{false};
  std::atomic<bool> stop_{false};
  int ways_ = 0;
  std::vector<std::thread> threads_;
};

TEST_F(EndsTest, UserAndBusRegions) {
  for (int round = 0; round < 10; ++round) {
    MemoryKey key = make_user();
    expect_over("deregistered", at(key), memory(), [&] { ASSERT_TRUE(table_.deregister(key).ok()); });

    key = make_user();
    const RegionChange elsewhere{.place = RegionChange::Place{memory(1), kPage}};
    expect_over("registered anew elsewhere", at(key), memory(),
                [&] { ASSERT_TRUE(table_.reregister(key, elsewhere).ok()); });
    ASSERT_TRUE(table_.deregister(key).ok());

    key = make_user();
    const RegionChange rights{.access = kLocalWrite};
    expect_over("registered anew without the right", at(key), memory(),
                [&] { ASSERT_TRUE(table_.reregister(key, rights).ok()); });
    ASSERT_TRUE(table_.deregister(key).ok());

    key = make_user();
    expect_over("domain ended", at(key), memory(), [&] { table_.end_domain(kOurs); });

    key = make_dma_region(table_, kOurs, kLocalWrite).value();
    const Target by_bus{.key = key, .address = bus(), .needed = kLocalWrite};
    expect_over("DMA region ended", by_bus, memory(), [&] { ASSERT_TRUE(end_dma_region(table_, key).ok()); });

    key = make_dma_region(table_, kOurs, kLocalWrite).value();
    const BusRange mapping{bus_.map(memory(), kPage, Direction::kFromDevice).value(), kPage};
    const Target unmapped{.key = key, .address = mapping.address, .needed = kLocalWrite};
    expect_over("unmapped on the bus", unmapped, memory(), [&] {
      ASSERT_TRUE(bus_.unmap({&mapping, 1}, Direction::kFromDevice).ok());
    });
    ASSERT_TRUE(end_dma_region(table_, key).ok());
  }
  EXPECT_EQ(ways_, 60);
}

TEST_F(EndsTest, PhysicalRegionsAndFmrs) {
  for (int round = 0; round < 10; ++round) {
    auto physical = make_physical();
    expect_over("physical region ended", at(physical->key()), memory(),
                [&] { ASSERT_TRUE(physical->end().ok()); });

    auto fmr = make_fmr();
    expect_over("FMR unmapped", at(fmr->key()), memory(), [&] {
      Fmr* const one = fmr.get();
      ASSERT_TRUE(Fmr::unmap({&one, 1}).ok());
    });
    ASSERT_TRUE(fmr->map({&pages_.addresses[0], 1}, kIova).ok());
    expect_over("FMR mapped elsewhere, old page unmapped on the bus", at(fmr->key()), memory(), [&] {
      ASSERT_TRUE(fmr->map({&pages_.addresses[1], 1}, kIova).ok());
      const BusRange old{bus(), kPage};
      ASSERT_TRUE(bus_.unmap({&old, 1}, Direction::kBidirectional).ok());
    });
    pages_.addresses[0] = bus_.map(memory(), kPage, Direction::kBidirectional).value();

    auto forgotten = make_fmr();
    expect_over("FMR destroyed without an end", at(forgotten->key()), memory(), [&] { forgotten.reset(); });
    pages_.addresses[0] = bus_.map(memory(), kPage, Direction::kBidirectional).value();

    const auto pool = taken(FmrPool::make(
        table_,
        {.fmr = {.domain = kOurs, .access = kLocalWrite | kRemoteWrite}, .size = 2, .dirty_watermark = 2}));
    PooledFmr* pooled = pool->map({&pages_.addresses[0], 1}, kIova).value();
    expect_over("pool flushed", at(pooled->key()), memory(), [&] {
      ASSERT_TRUE(pool->unmap(*pooled).ok());
      ASSERT_TRUE(pool->flush().ok());
    });
    pooled = pool->map({&pages_.addresses[0], 1}, kIova).value();
    expect_over("pool ended", at(pooled->key()), memory(), [&] {
      ASSERT_TRUE(pool->unmap(*pooled).ok());
      ASSERT_TRUE(pool->end().ok());
    });
  }
  EXPECT_EQ(ways_, 60);
}

TEST_F(EndsTest, FastRegionsAndWindows) {
  for (int round = 0; round < 10; ++round) {
    auto fast = make_fast();
    expect_over("fast region invalidated", at(fast->first_key()), memory(),
                [&] { invalidate(fast->first_key()); });
    ASSERT_TRUE(fast->end().ok());
    fast = make_fast();
    expect_over("fast region ended", at(fast->first_key()), memory(), [&] { ASSERT_TRUE(fast->end().ok()); });
    fast = make_fast();
    expect_over("fast region destroyed without an end", at(fast->first_key()), memory(),
                [&] { fast.reset(); });
    pages_.addresses[0] = bus_.map(memory(), kPage, Direction::kBidirectional).value();

    const auto region = make_physical();
    const auto other =
        table_
            .register_user(
                {.domain = kOurs, .address = memory(1), .length = kPage, .iova = kIova, .access = kWritable})
            .value()
            .lkey;
    auto first = taken(Window::make(table_, kOurs, RegionKind::kWindow1));
    const auto rebind = [&](MemoryKey region_key, uint64_t length) {
      const MemoryKey next = table_.next_key(table_.read_entry(first->first_key()).key);
      Invalidation invalidation;
      const WindowBinding wanted{.window = first->first_key(),
                                 .key = next,
                                 .region = region_key,
                                 .access = length != 0 ? kRemoteWrite : Access{},
                                 .address = kIova,
                                 .length = length,
                                 .type1 = true};
      ASSERT_NE(invalidation.begin_bind(table_, wanted, kUser), Invalidation::Answer::kRefused);
      while (!invalidation.over(table_)) std::this_thread::yield();
    };
    ASSERT_EQ(bind(*first, first->first_key(), region->key(), true), Bound::kDone);
    expect_over("window of type 1 bound elsewhere", at(first->first_key()), memory(),
                [&] { rebind(other, kPage); });
    rebind(region->key(), kPage);
    expect_over("window of type 1 bound to nothing", at(table_.read_entry(first->first_key()).key), memory(),
                [&] { rebind({}, 0); });
    first->end();
    for (const RegionKind kind : {RegionKind::kWindow2A, RegionKind::kWindow2B}) {
      const auto window = taken(Window::make(table_, kOurs, kind));
      ASSERT_EQ(bind(*window, window->first_key(), region->key(), false), Bound::kDone);
      expect_over("window of type 2 invalidated", at(window->first_key()), memory(),
                  [&] { invalidate(window->first_key()); });
      const MemoryKey next = MemoryKey::make(window->first_key().index(), 0x42);
      ASSERT_EQ(bind(*window, next, region->key(), false), Bound::kDone);
      expect_over("window of type 2 ended", at(next), memory(), [&] { window->end(); });
    }
    ASSERT_TRUE(table_.deregister(other).ok());
    ASSERT_TRUE(region->end().ok());
  }
  EXPECT_EQ(ways_, 90);
}

}  // namespace
}  // namespace uroce::mem
