#include "mem/regions/fmr.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/values/random.h"
#include "pages.h"
#include "turns.h"

namespace uroce::mem {
namespace {

constexpr DomainId kOurs{1};
constexpr DomainId kOthers{2};
constexpr Access kEverything = kLocalWrite | kRemoteWrite | kRemoteRead | kRemoteAtomic;
constexpr uint64_t kIova = 0x70000;

/// With and without an offset of all bus addresses.
class FmrTest : public testing::TestWithParam<uint64_t> {
 protected:
  std::unique_ptr<Fmr> make(uint32_t pages_max, uint32_t maps_max, Access access = kEverything) {
    return taken(Fmr::make(
        table_,
        {.domain = kOurs, .access = access, .pages_max = pages_max, .maps_max = maps_max, .page_shift = 12}));
  }
  static int code(const Status& status) { return status.ok() ? 0 : status.error().code; }
  int unmap(uint64_t page) {
    const BusRange range{page, kPage};
    return code(bus_.unmap({&range, 1}, Direction::kBidirectional));
  }
  static int unmap(Fmr& fmr) {
    Fmr* list[] = {&fmr};
    return code(Fmr::unmap(list));
  }
  Fault fault(MemoryKey key, uint64_t iova, uint64_t length, Access needed = kRemoteRead) {
    return table_.resolve(key, {kOurs, {}}, iova, length, needed).fault();
  }

  BusSpace bus_{{.offset = GetParam()}};
  RegionTable table_{{.entries_max = 64, .bus_space = &bus_}};
};

INSTANTIATE_TEST_SUITE_P(Offsets, FmrTest, testing::Values(uint64_t{0}, kPage, uint64_t{1} << 44));

TEST_P(FmrTest, MapPages_ExpectThemOneAfterTheOther) {
  const Pages pages(bus_, 3);
  const auto fmr = make(4, 2);
  EXPECT_EQ(fault(fmr->key(), kIova, 1), Fault::kState);
  const uint64_t list[] = {pages.addresses[2], pages.addresses[0], pages.addresses[1]};
  ASSERT_TRUE(fmr->map(list, kIova).ok());
  const Binding binding = table_.resolve(fmr->key(), {kOurs, {}}, kIova + 100, 3 * kPage - 100, kRemoteWrite);
  ASSERT_TRUE(binding.ok());
  EXPECT_EQ(binding.piece(0).data, pages.at(2) + 100);
  EXPECT_EQ(binding.piece(0).length, kPage - 100);
  EXPECT_EQ(binding.piece(kPage).data, pages.at(0) + 100);
  EXPECT_EQ(binding.piece(2 * kPage).data, pages.at(1) + 100);
  EXPECT_EQ(fault(fmr->key(), kIova, 3 * kPage + 1), Fault::kBounds);
  EXPECT_EQ(fault(fmr->key(), kIova - 1, 1), Fault::kBounds);
  EXPECT_EQ(table_.resolve(fmr->key(), {kOthers, {}}, kIova, 1, kRemoteRead).fault(), Fault::kDomain);
  EXPECT_EQ(unmap(*fmr), 0);
}

TEST_P(FmrTest, PagesOfTwoMegabytes_ExpectThemFromOneMapping) {
  constexpr uint64_t kLarge = 2 << 20;
  // Neither begins where such a page does in this process, nor has it to.
  std::vector<std::byte> memory(3 * kLarge);
  const auto start = (reinterpret_cast<uint64_t>(memory.data()) + kPage - 1) & ~(kPage - 1);
  const uint64_t bus = bus_.map(reinterpret_cast<std::byte*>(start), 2 * kLarge, {}).value();
  const auto made = Fmr::make(
      table_, {.domain = kOurs, .access = kRemoteRead, .pages_max = 2, .maps_max = 1, .page_shift = 21});
  const uint64_t list[] = {bus + kLarge, bus};
  const Status status = (*made)->map(list, 0);
  if (GetParam() % kLarge != 0) {  // then no address on this bus is a multiple of 2 MB
    EXPECT_EQ(code(status), EINVAL);
    return;
  }
  ASSERT_TRUE(status.ok());
  const Binding binding = table_.resolve((*made)->key(), {kOurs, {}}, kLarge - 8, 16, kRemoteRead);
  EXPECT_EQ(reinterpret_cast<uint64_t>(binding.piece(0).data), start + 2 * kLarge - 8);
  EXPECT_EQ(reinterpret_cast<uint64_t>(binding.piece(8).data), start);
  EXPECT_EQ(unmap(**made), 0);
}

TEST_P(FmrTest, MapAgain_ExpectANewKeyAndTheOldDead) {
  const Pages pages(bus_, 2);
  const auto fmr = make(1, 255);
  std::set<uint32_t> keys;
  MemoryKey old = fmr->key();
  for (uint32_t i = 0; i < 255; ++i) {
    ASSERT_TRUE(fmr->map({&pages.addresses[i % 2], 1}, kIova).ok());
    EXPECT_EQ(fmr->key().index(), old.index());
    EXPECT_TRUE(keys.insert(fmr->key().value).second) << "a key came twice";
    EXPECT_EQ(fault(old, kIova, 1), Fault::kKey);
    old = fmr->key();
    const Binding binding = table_.resolve(old, {kOurs, {}}, kIova, 1, kRemoteRead);
    EXPECT_EQ(binding.piece(0).data, pages.at(i % 2));
    EXPECT_EQ(unmap(pages.addresses[i % 2]), EBUSY);
  }
  EXPECT_EQ(code(fmr->map({&pages.addresses[0], 1}, kIova)), EAGAIN) << "its maps are used up";
  EXPECT_EQ(fault(old, kIova, 1), Fault::kNone);
  EXPECT_EQ(unmap(*fmr), 0);
  EXPECT_EQ(fault(old, kIova, 1), Fault::kState);
  EXPECT_EQ(code(fmr->map({&pages.addresses[0], 1}, kIova)), 0);
  EXPECT_EQ(unmap(*fmr), 0);
}

TEST_P(FmrTest, Pins_ExpectThemAsLongAsPagesAreBound) {
  const Pages pages(bus_, 3);
  const auto fmr = make(2, 8);
  const uint64_t first[] = {pages.addresses[0], pages.addresses[1]};
  ASSERT_TRUE(fmr->map(first, kIova).ok());
  EXPECT_EQ(unmap(pages.addresses[0]), EBUSY);
  EXPECT_EQ(unmap(pages.addresses[1]), EBUSY);
  const uint64_t second[] = {pages.addresses[1], pages.addresses[2]};
  ASSERT_TRUE(fmr->map(second, kIova).ok());
  EXPECT_EQ(unmap(pages.addresses[0]), 0);
  EXPECT_EQ(unmap(pages.addresses[1]), EBUSY);
  EXPECT_EQ(unmap(*fmr), 0);
  EXPECT_EQ(unmap(pages.addresses[1]), 0);
  EXPECT_EQ(unmap(pages.addresses[2]), 0);
}

TEST_P(FmrTest, RefusedMap_ExpectTheErrnoAndTheOldBinding) {
  const Pages pages(bus_, 3);
  const Pages unreadable(bus_, 1, Direction::kFromDevice);
  const Pages unwritable(bus_, 1, Direction::kToDevice);
  const auto fmr = make(2, 8);
  ASSERT_TRUE(fmr->map({&pages.addresses[0], 1}, kIova).ok());
  const MemoryKey key = fmr->key();
  const auto refusal = [&](std::vector<uint64_t> list, uint64_t iova = kIova) {
    const int error = code(fmr->map(list, iova));
    EXPECT_EQ(fmr->key(), key);
    EXPECT_EQ(fault(key, kIova, kPage), Fault::kNone);
    return error;
  };
  EXPECT_EQ(refusal({}), EINVAL);
  EXPECT_EQ(refusal(pages.addresses), EINVAL) << "three pages in two";
  EXPECT_EQ(refusal({pages.addresses[1] + 1}), EINVAL);
  EXPECT_EQ(refusal({pages.addresses[1]}, kIova + 1), EINVAL);
  EXPECT_EQ(refusal({pages.addresses[1], pages.addresses[2]}, 0 - kPage), EINVAL);
  EXPECT_EQ(refusal({pages.addresses[1], pages.addresses[1] + (uint64_t{1} << 30)}), EFAULT);
  EXPECT_EQ(refusal({pages.addresses[1], reinterpret_cast<uint64_t>(pages.at(2))}), EFAULT);
  EXPECT_EQ(refusal({pages.addresses[1], unreadable.addresses[0]}), EFAULT);
  EXPECT_EQ(refusal({pages.addresses[1], unwritable.addresses[0]}), EFAULT);
  EXPECT_EQ(unmap(pages.addresses[1]), 0) << "not pinned by what failed";
  EXPECT_EQ(unmap(*fmr), 0);
}

TEST_P(FmrTest, PagesThatOnlyTheDeviceWrites_ExpectThemNotToBeSent) {
  const Pages received(bus_, 1, Direction::kFromDevice);
  const Pages both(bus_, 1);
  const auto fmr = make(1, 8, kLocalWrite | kRemoteWrite);
  ASSERT_TRUE(fmr->map(received.addresses, kIova).ok());
  EXPECT_EQ(fault(fmr->key(), kIova, 1, kRemoteWrite), Fault::kNone);
  EXPECT_EQ(fault(fmr->key(), kIova, 1, kLocalRead), Fault::kAccess);
  ASSERT_TRUE(fmr->map(both.addresses, kIova).ok());
  EXPECT_EQ(fault(fmr->key(), kIova, 1, kLocalRead), Fault::kNone);
  EXPECT_EQ(unmap(*fmr), 0);
}

TEST_P(FmrTest, RefusedAlloc_ExpectTheErrno) {
  const Fmr::Options good{.domain = kOurs, .access = kEverything};
  const auto refusal = [&](auto change) {
    Fmr::Options options = good;
    change(options);
    const auto made = Fmr::make(table_, options);
    return made.ok() ? 0 : made.error().code;
  };
  using O = Fmr::Options;
  EXPECT_EQ(refusal([](O& o) { o.domain = {}; }), EINVAL);
  EXPECT_EQ(refusal([](O& o) { o.pages_max = 0; }), EINVAL);
  EXPECT_EQ(refusal([](O& o) { o.pages_max = Fmr::kPagesMax + 1; }), EINVAL);
  EXPECT_EQ(refusal([](O& o) { o.maps_max = 0; }), EINVAL);
  EXPECT_EQ(refusal([](O& o) { o.maps_max = Fmr::kMapsMax + 1; }), EINVAL);
  EXPECT_EQ(refusal([](O& o) { o.page_shift = 11; }), EINVAL);
  EXPECT_EQ(refusal([](O& o) { o.page_shift = 31; }), EINVAL);
  EXPECT_EQ(refusal([](O& o) { o.access = kRemoteWrite; }), EINVAL);
  EXPECT_EQ(refusal([](O& o) { o.access = Access(1u << 15); }), EINVAL);
  EXPECT_EQ(refusal([](O& o) { o.access = kZeroBased; }), EINVAL);
  EXPECT_EQ(refusal([](O& o) { o.access = kWindowBind; }), EINVAL);
  EXPECT_EQ(refusal([](O& o) { o.access = kOnDemand; }), EOPNOTSUPP);
  EXPECT_EQ(table_.regions(), 0u);
  EXPECT_EQ(refusal([](O&) {}), 0);
}

TEST_P(FmrTest, End_ExpectEbusyWhileMapped) {
  const Pages pages(bus_, 1);
  const auto fmr = make(1, 1);
  ASSERT_TRUE(fmr->map(pages.addresses, kIova).ok());
  EXPECT_EQ(code(fmr->end()), EBUSY);
  EXPECT_EQ(unmap(*fmr), 0);
  EXPECT_EQ(unmap(*fmr), 0) << "not mapped, not an error";
  const MemoryKey key = fmr->key();
  EXPECT_EQ(code(fmr->end()), 0);
  EXPECT_EQ(fault(key, kIova, 1), Fault::kKey);
  EXPECT_EQ(table_.regions(), 0u);
}

TEST_P(FmrTest, UnmapAList_ExpectAllUnbound) {
  const Pages pages(bus_, 1);
  std::vector<std::unique_ptr<Fmr>> fmrs;
  std::vector<Fmr*> list;
  for (int i = 0; i < 5; ++i) {
    fmrs.push_back(make(1, 1));
    list.push_back(fmrs.back().get());
    if (i != 3) {
      ASSERT_TRUE(fmrs.back()->map(pages.addresses, kIova).ok());
    }
  }
  list.push_back(list[0]);  // twice is once
  EXPECT_EQ(code(Fmr::unmap(list)), 0);
  for (const auto& fmr : fmrs) {
    EXPECT_EQ(fault(fmr->key(), kIova, 1), Fault::kState);
    EXPECT_EQ(code(fmr->end()), 0);
  }
  EXPECT_EQ(unmap(pages.addresses[0]), 0);
  EXPECT_EQ(code(Fmr::unmap({})), 0);
}

TEST_P(FmrTest, UnmapOfTwoDevices_ExpectEinvalAndNothingDone) {
  const Pages pages(bus_, 1);
  RegionTable other({.entries_max = 64, .bus_space = &bus_});
  const auto here = make(1, 1);
  const auto there = taken(Fmr::make(other, {.domain = kOurs}));
  ASSERT_TRUE(here->map(pages.addresses, kIova).ok());
  Fmr* list[] = {here.get(), there.get()};
  EXPECT_EQ(code(Fmr::unmap(list)), EINVAL);
  EXPECT_EQ(fault(here->key(), kIova, 1), Fault::kNone);
  EXPECT_EQ(unmap(*here), 0);
}

/// Pages that belong to one binding carry its number: a reader that sees two numbers saw a mix of two.
TEST(FmrConcurrency, MapAgainWhilePollersRead_ExpectNoMixOfTwoBindings) {
  const uint64_t seed = 4711;
  SCOPED_TRACE("seed " + std::to_string(seed));
  constexpr size_t kSets = 6;
  constexpr size_t kPerSet = 4;
  constexpr int kRounds = 20000;
  Turns turns;
  BusSpace bus({.grace_period = &turns});
  RegionTable table({.entries_max = 64, .grace_period = &turns, .bus_space = &bus});
  const Pages pages(bus, kSets * kPerSet);
  for (size_t i = 0; i < kSets * kPerSet; ++i)
    *reinterpret_cast<uint64_t*>(pages.at(i)) = i / kPerSet * 100 + i % kPerSet;
  const auto fmr =
      taken(Fmr::make(table, {.domain = kOurs, .access = kRemoteRead, .pages_max = kPerSet, .maps_max = 7}));
  std::atomic<uint32_t> key{fmr->key().value};
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> seen{0};
  std::atomic<uint64_t> mixes{0};

  std::vector<std::thread> readers;
  for (size_t r = 0; r < Turns::kReaders; ++r) {
    readers.emplace_back([&, r] {
      Random random(seed + r);
      while (!stop.load()) {
        turns.enter(r);
        const Binding binding = table.resolve({key.load()}, {kOurs, {}}, kIova, kPerSet * kPage, kRemoteRead);
        if (binding.ok()) {
          const uint64_t first = *reinterpret_cast<const uint64_t*>(binding.piece(0).data);
          if (random.chance(1, 8)) std::this_thread::yield();
          for (uint64_t i = 0; i < kPerSet; ++i)
            mixes += *reinterpret_cast<const uint64_t*>(binding.piece(i * kPage).data) != first + i;
          ++seen;
        }
        turns.leave(r);
        std::this_thread::yield();  // rather here than within a turn, for which everyone waits
      }
    });
  }
  Random random(seed);
  for (int round = 0; round < kRounds || seen.load() < 1000; ++round) {
    const size_t set = random.below(kSets);
    if (fmr->maps() == 7 || random.chance(1, 20)) {
      Fmr* list[] = {fmr.get()};
      ASSERT_TRUE(Fmr::unmap(list).ok());
    }
    ASSERT_TRUE(fmr->map({&pages.addresses[set * kPerSet], kPerSet}, kIova).ok());
    key.store(fmr->key().value);
    if (random.chance(1, 4)) std::this_thread::yield();
  }
  stop.store(true);
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(mixes.load(), 0u);
}

/// A thread that has unmapped an FMR writes its pages without any synchronisation, and so does one that has
/// unmapped the bus address of a page that an FMR was bound to before.
TEST(FmrConcurrency, UnmapWhilePollersWrite_ExpectNoByteTouchedAfterwards) {
  constexpr int kRounds = 5000;
  Turns turns;
  BusSpace bus({.grace_period = &turns});
  RegionTable table({.entries_max = 64, .grace_period = &turns, .bus_space = &bus});
  const Pages other(bus, 1);
  const std::unique_ptr<std::byte, decltype(&std::free)> page(
      static_cast<std::byte*>(std::aligned_alloc(kPage, kPage)), &std::free);
  const auto fmr = taken(Fmr::make(
      table,
      {.domain = kOurs, .access = kLocalWrite | kRemoteWrite, .pages_max = 1, .maps_max = Fmr::kMapsMax}));
  std::atomic<uint32_t> key{fmr->key().value};
  std::atomic<bool> stop{false};
  std::thread reader([&] {
    while (!stop.load()) {
      turns.enter(0);
      const Binding binding = table.resolve({key.load()}, {kOurs, {}}, kIova, kPage, kRemoteWrite);
      if (binding.ok()) {
        std::this_thread::yield();
        *reinterpret_cast<volatile unsigned char*>(binding.piece(0).data) = 0xEE;
      }
      turns.leave(0);
      std::this_thread::yield();
    }
  });
  Fmr* list[] = {fmr.get()};
  for (int round = 0; round < kRounds; ++round) {
    const BusRange range{bus.map(page.get(), kPage, Direction::kBidirectional).value(), kPage};
    ASSERT_TRUE(fmr->map({&range.address, 1}, kIova).ok());
    key.store(fmr->key().value);
    if (round % 8 == 0) std::this_thread::yield();
    if (round % 2 == 0) {
      ASSERT_TRUE(Fmr::unmap(list).ok());
    } else {
      ASSERT_TRUE(fmr->map(other.addresses, kIova).ok());
      ASSERT_TRUE(bus.unmap({&range, 1}, Direction::kBidirectional).ok());
    }
    auto* byte = reinterpret_cast<volatile unsigned char*>(page.get());
    *byte = static_cast<unsigned char>(round % 100);
    if (round % 8 == 0) std::this_thread::yield();
    ASSERT_EQ(*byte, round % 100);
    if (round % 2 == 0) {
      ASSERT_TRUE(bus.unmap({&range, 1}, Direction::kBidirectional).ok());
    } else {
      ASSERT_TRUE(Fmr::unmap(list).ok());
    }
  }
  stop.store(true);
  reader.join();
}

}  // namespace
}  // namespace uroce::mem
