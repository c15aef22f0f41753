#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <string>
#include <thread>
#include <vector>

#include "base/values/random.h"
#include "mem/keys/region_entry.h"
#include "mem/keys/region_table.h"
#include "turns.h"

namespace uroce::mem {
namespace {

constexpr size_t kReaders = Turns::kReaders;
constexpr size_t kWriters = 2;

/// Readers resolve keys, the newest and old ones, and write into what they get. A writer whose deregistration
/// has returned writes the same bytes without any synchronisation of its own, and expects them to stay.
TEST(RegionConcurrency, DeregisterWhilePollersWrite_ExpectNoByteTouchedAfterwards) {
  const uint64_t seed = 31337;
  SCOPED_TRACE("seed " + std::to_string(seed));
  constexpr size_t kBytes = 256;
  Turns turns;
  LockedMemory locked;
  RegionTable table({.entries_max = 64, .grace_period = &turns, .locked_memory = &locked});
  std::atomic<uint32_t> newest_keys[kWriters]{};
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> resolved{0};

  std::vector<std::thread> readers;
  for (size_t r = 0; r < kReaders; ++r) {
    readers.emplace_back([&, r] {
      Random random(seed + r);
      while (!stop.load()) {
        turns.enter(r);
        for (int i = 0; i < 8; ++i) {
          const uint32_t newest = newest_keys[random.below(kWriters)].load();
          const MemoryKey key{newest - static_cast<uint32_t>(random.below(2))};
          const Binding binding = table.resolve(key, {{1}, {}}, 0x5000, kBytes, kRemoteWrite);
          if (!binding.ok()) continue;
          // Now and then a poller loses its core between the check and the use.
          if (random.chance(1, 16)) std::this_thread::yield();
          // Two readers may be at it at once, like two pollers that serve the same region.
          for (size_t at = 0; at < kBytes; at += 64) {
            auto* byte = reinterpret_cast<unsigned char*>(binding.piece(at).data);
            __atomic_store_n(byte, uint8_t{0xEE}, __ATOMIC_RELAXED);
          }
          resolved.fetch_add(1);
        }
        turns.leave(r);
        std::this_thread::yield();  // rather here than within a turn, for which everyone waits
      }
    });
  }

  std::vector<std::thread> writers;
  for (size_t w = 0; w < kWriters; ++w) {
    writers.emplace_back([&, w] {
      std::vector<std::byte> memory(kBytes);
      for (int i = 0; i < 4000; ++i) {
        const UserRegion region{.domain = {1},
                                .address = memory.data(),
                                .length = kBytes,
                                .iova = 0x5000,
                                .access = kLocalWrite | kRemoteWrite};
        const Result<RegionKeys> keys = table.register_user(region);
        ASSERT_TRUE(keys.ok());
        newest_keys[w].store(keys->rkey.value);
        if (i % 16 == 0) std::this_thread::yield();
        ASSERT_TRUE(table.deregister(keys->lkey).ok());
        memory.assign(kBytes, static_cast<std::byte>(i));  // ours alone again
        if (i % 16 == 0) std::this_thread::yield();
        ASSERT_EQ(memory, std::vector<std::byte>(kBytes, static_cast<std::byte>(i)));
      }
    });
  }
  for (std::thread& writer : writers) writer.join();
  stop.store(true);
  for (std::thread& reader : readers) reader.join();
  EXPECT_GT(resolved.load(), 0u);
  EXPECT_EQ(table.regions(), 0u);
}

/// The turn in which a key was resolved is still on: deregistration does not return. After it, it does.
TEST(RegionConcurrency, DeregisterDuringATurn_ExpectItToWaitForTheEndOfTheTurn) {
  Turns turns;
  LockedMemory locked;
  RegionTable table({.entries_max = 64, .grace_period = &turns, .locked_memory = &locked});
  std::vector<std::byte> memory(64);
  const UserRegion region{.domain = {1}, .address = memory.data(), .length = 64};
  const MemoryKey key = table.register_user(region).value().lkey;
  std::atomic<bool> returned{false};

  turns.enter(0);
  ASSERT_TRUE(table.resolve(key, {{1}, {}}, 0, 64, kLocalRead).ok());
  std::thread control([&] {
    EXPECT_TRUE(table.deregister(key).ok());
    returned.store(true);
  });
  // The key dies at once, for this turn too; its index and its bytes are not given back.
  while (table.resolve(key, {{1}, {}}, 0, 64, kLocalRead).ok()) std::this_thread::yield();
  for (int i = 0; i < 10000; ++i) std::this_thread::yield();
  EXPECT_FALSE(returned.load());
  EXPECT_EQ(table.regions(), 1u);
  EXPECT_GT(locked.bytes(), 0u);
  turns.leave(0);
  control.join();
  EXPECT_EQ(table.regions(), 0u);
  EXPECT_EQ(locked.bytes(), 0u);
}

/// Several threads deregister the same key: exactly one does it.
TEST(RegionConcurrency, DeregisterTwiceAtOnce_ExpectOneEinval) {
  LockedMemory locked;
  RegionTable table({.entries_max = 64, .locked_memory = &locked});
  std::vector<std::byte> memory(64);
  for (int i = 0; i < 300; ++i) {
    const UserRegion region{.domain = {1}, .address = memory.data(), .length = 64};
    const MemoryKey key = table.register_user(region).value().lkey;
    std::atomic<int> done{0};
    std::thread other([&] { done += table.deregister(key).ok(); });
    done += table.deregister(key).ok();
    other.join();
    ASSERT_EQ(done.load(), 1);
  }
}

/// All fields of a binding follow from one number.
RegionBinding binding_of(uint32_t number) {
  return {.key = MemoryKey::make(5, static_cast<uint8_t>(number)),
          .kind = RegionKind::kUser,
          .page_shift = static_cast<uint8_t>(number % 40),
          .bound = number % 3 == 0,
          .cold = number % 2 == 1,
          .domain = {number},
          .queue_pair = {uint64_t{number + 1} << 15},
          .access = Access(number & 0xF),
          .iova = uint64_t{number} << 32,
          .length = uint64_t{number} * 3,
          .memory = reinterpret_cast<void*>(uint64_t{number} << 12),
          .offset = uint64_t{number} * 5};
}

/// A live entry bound anew again and again, as fast re-registration will do it.
TEST(RegionConcurrency, RebindALiveEntry_ExpectNoMixOfTwoBindings) {
  RegionEntry entry;
  entry.write(binding_of(1));
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> looks{0};
  std::atomic<uint64_t> mixes{0};
  std::vector<std::thread> readers;
  for (size_t r = 0; r < kReaders; ++r) {
    readers.emplace_back([&] {
      uint32_t latest = 0;
      while (!stop.load()) {
        const RegionBinding seen = entry.read();
        if (seen.kind == RegionKind::kNone) continue;
        const RegionBinding whole = binding_of(seen.domain.value);
        const bool mixed = seen.key != whole.key || seen.cold != whole.cold || seen.access != whole.access ||
                           seen.iova != whole.iova || seen.length != whole.length ||
                           seen.memory != whole.memory || seen.offset != whole.offset ||
                           seen.bound != whole.bound || seen.page_shift != whole.page_shift ||
                           seen.queue_pair != whole.queue_pair;
        mixes += mixed || seen.domain.value < latest;  // nor does it go back
        latest = seen.domain.value;
        ++looks;
      }
    });
  }
  for (uint32_t number = 2; number < 3000000 || looks.load() < 200000; ++number)
    entry.write(binding_of(number));
  stop.store(true);
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(mixes.load(), 0u);
}

}  // namespace
}  // namespace uroce::mem
