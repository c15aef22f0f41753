// User regions that are bound anew while their keys live on.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <atomic>
#include <cerrno>
#include <string>
#include <thread>
#include <vector>

#include "base/values/random.h"
#include "mem/keys/region_object.h"
#include "mem/keys/region_table.h"
#include "tests/unit/mem/turns.h"

namespace uroce::mem {
namespace {

constexpr DomainId kOurs{1};
constexpr DomainId kOthers{2};
constexpr Access kAll = kLocalWrite | kRemoteWrite | kRemoteRead;

class Reregistration : public ::testing::Test {
 protected:
  MemoryKey make(Access access = kAll) {
    return table.register_user({kOurs, one.data(), one.size(), kIova, access}).value().lkey;
  }
  int change(MemoryKey key, const RegionChange& wanted) {
    const Status status = table.reregister(key, wanted);
    return status ? 0 : status.error().code;
  }
  [[nodiscard]] RegionChange::Place other_place() { return {two.data(), two.size()}; }
  [[nodiscard]] static uint64_t address_of(const std::vector<std::byte>& memory) {
    return reinterpret_cast<uint64_t>(memory.data());
  }
  Fault fault(MemoryKey key, uint64_t iova, uint64_t length = 1, Access needed = kRemoteWrite,
              DomainId domain = kOurs) {
    return table.resolve(key, {domain, {}}, iova, length, needed).fault();
  }

  static constexpr uint64_t kIova = 0x700000;
  std::vector<std::byte> one = std::vector<std::byte>(10000);
  std::vector<std::byte> two = std::vector<std::byte>(50000);
  LockedMemory locked;
  RegionTable table{{.entries_max = 64, .cold_bytes = 20000, .locked_memory = &locked}};
};

TEST_F(Reregistration, NewPlace_ExpectTheSameKeyToLeadThere) {
  const MemoryKey key = make();
  ASSERT_EQ(change(key, {.place = other_place()}), 0);
  const Binding binding = table.resolve(key, {kOurs, {}}, address_of(two) + 7, two.size() - 7, kRemoteWrite);
  ASSERT_TRUE(binding.ok());
  EXPECT_EQ(binding.piece(0).data, two.data() + 7);
  EXPECT_TRUE(binding.cold());
  EXPECT_EQ(fault(key, kIova), Fault::kBounds);
  EXPECT_EQ(table.regions(), 1u);
}

TEST_F(Reregistration, NewDomain_ExpectTheOldOneToBeRefused) {
  const MemoryKey key = make();
  ASSERT_EQ(change(key, {.domain = kOthers}), 0);
  EXPECT_EQ(fault(key, kIova), Fault::kDomain);
  EXPECT_EQ(fault(key, kIova, 1, kRemoteWrite, kOthers), Fault::kNone);
}

TEST_F(Reregistration, NewRights_ExpectThemAndNoOthers) {
  const MemoryKey key = make();
  ASSERT_EQ(change(key, {.access = kLocalWrite | kRemoteRead}), 0);
  EXPECT_EQ(fault(key, kIova, 1, kRemoteWrite), Fault::kAccess);
  EXPECT_EQ(fault(key, kIova, 1, kRemoteRead), Fault::kNone);
  EXPECT_EQ(fault(key, kIova, 1, kLocalRead), Fault::kNone);
  ASSERT_EQ(change(key, {.access = kAll | kWindowBind}), 0);
  EXPECT_EQ(fault(key, kIova, 1, kRemoteWrite), Fault::kNone);
}

TEST_F(Reregistration, AllAtOnce) {
  const MemoryKey key = make(kLocalWrite);
  ASSERT_EQ(change(key, {kOthers, other_place(), kAll | kZeroBased}), 0);
  EXPECT_EQ(fault(key, 0, two.size(), kRemoteWrite, kOthers), Fault::kNone);
}

TEST_F(Reregistration, ZeroBasedRegion_ExpectItToStaySo) {
  const MemoryKey key = make(kAll | kZeroBased);
  ASSERT_EQ(change(key, {.access = kLocalWrite | kRemoteWrite}), 0);
  EXPECT_EQ(fault(key, 0, one.size()), Fault::kNone);
  ASSERT_EQ(change(key, {.place = other_place()}), 0);
  EXPECT_EQ(fault(key, 0, two.size()), Fault::kNone);
  ASSERT_EQ(change(key, {.place = other_place(), .access = kAll}), 0);
  EXPECT_EQ(fault(key, address_of(two), two.size()), Fault::kNone);
}

/// What is refused leaves the region as it was.
TEST_F(Reregistration, Refusals) {
  const MemoryKey key = make();
  auto* const read_only =
      static_cast<std::byte*>(::mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(read_only, MAP_FAILED);
  const uint64_t charged = locked.bytes();
  struct Case {
    const char* what;
    RegionChange wanted;
    int error;
  };
  const std::vector<Case> cases = {
      {"a range that wraps", {.place = RegionChange::Place{two.data(), UINT64_MAX}}, EINVAL},
      {"contradictory rights", {.access = kRemoteWrite}, EINVAL},
      {"an unknown right", {.access = Access(1u << 12)}, EINVAL},
      {"a right that nothing has", {.access = kOnDemand}, EOPNOTSUPP},
      {"zero-based where it lies", {.access = kAll | kZeroBased}, EINVAL},
      {"no domain", {.domain = DomainId{}}, EINVAL},
      {"read-only memory", {.place = RegionChange::Place{read_only, 4096}}, EFAULT},
      {"memory that is not there", {.place = RegionChange::Place{nullptr, 4096}}, EFAULT},
  };
  for (const Case& one_case : cases) {
    EXPECT_EQ(change(key, one_case.wanted), one_case.error) << one_case.what;
    EXPECT_EQ(fault(key, kIova, one.size()), Fault::kNone) << one_case.what;
    EXPECT_EQ(locked.bytes(), charged) << one_case.what;
  }
  EXPECT_EQ(change(MemoryKey{key.value ^ 1}, {.domain = kOthers}), EINVAL) << "another key of the index";
  EXPECT_EQ(change(MemoryKey{0xFFFFFF00}, {.domain = kOthers}), EINVAL) << "no such key";

  // Read-only memory may be read; to be written it must be writable.
  ASSERT_EQ(change(key, {.place = RegionChange::Place{read_only, 4096}, .access = kRemoteRead}), 0);
  EXPECT_EQ(change(key, {.access = kLocalWrite}), EFAULT);
  EXPECT_TRUE(table.deregister(key).ok());
  ::munmap(read_only, 4096);
}

TEST_F(Reregistration, WithWindowsOverIt_ExpectEbusyAndTheSameForItsEnd) {
  const MemoryKey key = make(kAll | kWindowBind);
  RegionObject* const object = table.read_entry(key).object;
  ASSERT_NE(object, nullptr);
  object->lock();
  object->windows = 1;
  object->unlock();
  EXPECT_EQ(change(key, {.domain = kOthers}), EBUSY);
  EXPECT_EQ(table.deregister(key).error().code, EBUSY);
  EXPECT_EQ(fault(key, kIova), Fault::kNone);
  object->windows = 0;
  EXPECT_EQ(change(key, {.domain = kOthers}), 0);
  EXPECT_TRUE(table.deregister(key).ok());
}

/// Old and new memory count while both are held, then the new only.
TEST_F(Reregistration, LockedBytes_ExpectThemToFollow) {
  std::vector<std::byte> pages(4096 * 40);
  const MemoryKey key = table.register_user({kOurs, pages.data(), 1, 0, kAll}).value().lkey;
  const uint64_t before = locked.bytes();
  ASSERT_EQ(change(key, {.place = RegionChange::Place{pages.data(), pages.size()}}), 0);
  EXPECT_GE(locked.bytes(), pages.size());
  ASSERT_EQ(change(key, {.domain = kOthers, .access = kLocalWrite}), 0);
  EXPECT_GE(locked.bytes(), pages.size());
  ASSERT_EQ(change(key, {.place = RegionChange::Place{pages.data(), 1}}), 0);
  EXPECT_EQ(locked.bytes(), before);
  EXPECT_TRUE(table.deregister(key).ok());
  EXPECT_EQ(locked.bytes(), 0u);
}

/// Pollers write through one key, which the control path moves from memory to memory. When a change has
/// returned, what the region lay in before is the control path's alone; no poller ever sees a mix.
TEST(ReregistrationConcurrency, ChangeWhilePollersWrite_ExpectNoByteTouchedAfterwards) {
  const uint64_t seed = 271828;
  SCOPED_TRACE("seed " + std::to_string(seed));
  constexpr size_t kReaders = 2;
  constexpr size_t kShort = 256;
  constexpr size_t kLong = 1024;
  Turns turns(kReaders);
  LockedMemory locked;
  RegionTable table({.entries_max = 64, .grace_period = &turns, .locked_memory = &locked});
  std::vector<std::byte> memories[2] = {std::vector<std::byte>(kShort), std::vector<std::byte>(kLong)};
  constexpr Access kRights = kLocalWrite | kRemoteWrite | kZeroBased;
  const MemoryKey key = table.register_user({{1}, memories[0].data(), kShort, 0, kRights}).value().lkey;
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> resolved{0};
  std::atomic<uint64_t> mixes{0};

  std::vector<std::thread> readers;
  for (size_t reader = 0; reader < kReaders; ++reader) {
    readers.emplace_back([&, reader] {
      Random random(seed + reader);
      while (!stop.load()) {
        turns.enter(reader);
        for (int i = 0; i < 8; ++i) {
          const uint64_t length = random.chance(1, 2) ? kShort : kLong;
          const Binding binding = table.resolve(key, {{1}, {}}, 0, length, kRemoteWrite);
          // No key: the writer lost its core half-way, and a reader does not wait for it.
          if (binding.fault() == Fault::kKey) continue;
          mixes += !binding.ok() && (binding.fault() != Fault::kBounds || length == kShort);
          if (!binding.ok()) continue;
          if (random.chance(1, 16)) std::this_thread::yield();
          mixes += length == kLong && binding.piece(0).data != memories[1].data();
          for (size_t at = 0; at < length; at += 64)
            __atomic_store_n(reinterpret_cast<uint8_t*>(binding.piece(at).data), 0xEE, __ATOMIC_RELAXED);
          resolved.fetch_add(1);
        }
        turns.leave(reader);
        std::this_thread::yield();
      }
    });
  }
  for (size_t round = 0; round < 4000 || resolved.load() < 1000; ++round) {
    std::vector<std::byte>& next = memories[(round + 1) % 2];
    std::vector<std::byte>& left = memories[round % 2];
    // What of it is to change more often than not: rights and place together, or in two steps.
    const bool together = round % 3 != 0;
    ASSERT_TRUE(
        table
            .reregister(key, {.place = RegionChange::Place{next.data(), next.size()},
                              .access = together ? std::optional(kRights | kWindowBind) : std::nullopt})
            .ok());
    const auto mark = static_cast<std::byte>(round);
    left.assign(left.size(), mark);
    if (round % 16 == 0) std::this_thread::yield();
    ASSERT_EQ(left, std::vector<std::byte>(left.size(), mark));
  }
  stop.store(true);
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(mixes.load(), 0u);
  EXPECT_TRUE(table.deregister(key).ok());
  EXPECT_EQ(locked.bytes(), 0u);
}

/// Several threads change one region and another ends it: all of them are answered, and the account is right.
TEST(ReregistrationConcurrency, ChangesAndTheEndAtOnce_ExpectTheAccountToBeRight) {
  LockedMemory locked;
  RegionTable table({.entries_max = 64, .locked_memory = &locked});
  std::vector<std::byte> memory(1 << 16);
  for (int round = 0; round < 200; ++round) {
    const MemoryKey key = table.register_user({{1}, memory.data(), 100, 0, kAll}).value().lkey;
    std::vector<std::thread> threads;
    for (uint64_t t = 1; t <= 2; ++t) {
      threads.emplace_back([&, t] {
        for (uint64_t i = 0; i < 10; ++i) {
          const Status status =
              table.reregister(key, {.place = RegionChange::Place{memory.data() + t * 100, 10000 * t + i},
                                     .access = i % 2 == 0 ? kAll : kAll | kWindowBind});
          if (!status) {
            EXPECT_TRUE(status.error().code == EBUSY || status.error().code == EINVAL);
          }
        }
      });
    }
    std::this_thread::yield();
    EXPECT_TRUE(table.deregister(key).ok());
    for (std::thread& thread : threads) thread.join();
    ASSERT_EQ(locked.bytes(), 0u);
  }
}

}  // namespace
}  // namespace uroce::mem
