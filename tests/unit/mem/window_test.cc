// Memory windows as pollers bind and invalidate them. What each type may be bound to and what for is in the
// tables below.
#include "mem/regions/window.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <memory>
#include <utility>
#include <vector>

#include "mem/regions/dma_region.h"
#include "mem/regions/fast_region.h"
#include "mem/regions/invalidation.h"
#include "mem/regions/key_breaking.h"
#include "mem/regions/physical_region.h"
#include "tests/unit/mem/other_poller.h"

namespace uroce::mem {
namespace {

using Answer = Invalidation::Answer;

constexpr uint64_t kBytes = 8 * 4096;
constexpr uint64_t kIova = 0x40000;
constexpr DomainId kDomain{3};
constexpr KeyUser kUser{.domain = kDomain, .queue_pair = {17}};
constexpr KeyUser kOtherQueuePair{.domain = kDomain, .queue_pair = {18}};
constexpr KeyUser kOtherDomain{.domain = {4}, .queue_pair = {17}};
constexpr Access kBindable = kLocalWrite | kRemoteWrite | kRemoteRead | kWindowBind;
constexpr Access kBoth = kRemoteWrite | kRemoteRead;

class WindowTest : public ::testing::TestWithParam<RegionKind> {
 protected:
  ~WindowTest() override {
    if (window != nullptr) window->end();
  }
  [[nodiscard]] bool type1() const { return GetParam() == RegionKind::kWindow1; }
  [[nodiscard]] MemoryKey key(uint8_t low) const { return MemoryKey::make(window->first_key().index(), low); }
  [[nodiscard]] WindowBinding to(MemoryKey region, uint8_t low = 1) const {
    return {.window = window->first_key(),
            .key = key(low),
            .region = region,
            .access = kBoth,
            .address = kIova + 1000,
            .length = 5000,
            .type1 = type1()};
  }
  MemoryKey make_user(Access access = kBindable, DomainId domain = kDomain) {
    return table.register_user({domain, memory.data(), kBytes, kIova, access}).value().lkey;
  }
  Bound bind(const WindowBinding& wanted, const KeyUser& user = kUser) {
    return bind_window(table, wanted, user);
  }
  [[nodiscard]] Fault fault(MemoryKey of, uint64_t iova, uint64_t length = 1, Access needed = kRemoteWrite,
                            const KeyUser& user = kUser) const {
    return table.resolve(of, user, iova, length, needed).fault();
  }
  /// Back to the free state, however that goes.
  void unbind(MemoryKey bound) {
    if (type1()) {
      WindowBinding nothing = to({}, static_cast<uint8_t>(bound.key() + 1));
      nothing.length = 0;
      EXPECT_EQ(bind(nothing), Bound::kAnew);
    } else {
      EXPECT_EQ(invalidation.begin(table, bound, kUser), Answer::kOver);
    }
  }

  std::vector<std::byte> memory = std::vector<std::byte>(kBytes);
  BusSpace bus{{}};
  testing::OtherPoller other;
  LockedMemory locked;
  RegionTable table{{.entries_max = 64, .grace_period = &other, .locked_memory = &locked, .bus_space = &bus}};
  std::unique_ptr<Window> window = std::move(Window::make(table, kDomain, GetParam()).value());
  Invalidation invalidation;
};

INSTANTIATE_TEST_SUITE_P(Types, WindowTest,
                         ::testing::Values(RegionKind::kWindow1, RegionKind::kWindow2A,
                                           RegionKind::kWindow2B),
                         [](const auto& of) {
                           return of.param == RegionKind::kWindow1    ? "Type1"
                                  : of.param == RegionKind::kWindow2A ? "Type2A"
                                                                      : "Type2B";
                         });

TEST_P(WindowTest, BindAndUnbind_ExpectItsKeyToResolveInBetween) {
  EXPECT_EQ(fault(window->first_key(), kIova), Fault::kState);
  const MemoryKey region = make_user();
  ASSERT_EQ(bind(to(region)), Bound::kDone);
  EXPECT_EQ(fault(window->first_key(), kIova), Fault::kKey);
  const Binding binding = table.resolve(key(1), kUser, kIova + 1007, 4993, kRemoteWrite);
  ASSERT_TRUE(binding.ok());
  EXPECT_EQ(binding.piece(0).data, memory.data() + 1007);
  EXPECT_EQ(fault(key(1), kIova + 999), Fault::kBounds);
  EXPECT_EQ(fault(key(1), kIova + 1000, 5001), Fault::kBounds);
  EXPECT_EQ(fault(key(1), kIova + 6000), Fault::kBounds);
  unbind(key(1));
  EXPECT_EQ(fault(key(type1() ? 2 : 1), kIova + 1000), Fault::kState);
  ASSERT_EQ(bind(to(region, 9)), Bound::kDone);
  EXPECT_EQ(fault(key(1), kIova + 1000), Fault::kKey);
  EXPECT_EQ(fault(key(9), kIova + 1000), Fault::kNone);
}

/// The accesses that a bound window allows. (Reading it locally is a right that no window has.)
TEST_P(WindowTest, Rights) {
  const MemoryKey region = make_user(kBindable | kRemoteAtomic);
  const std::vector<Access> all = {Access{}, kRemoteRead, kRemoteWrite, kBoth, kRemoteAtomic};
  uint8_t low = 10;
  for (const Access given : all) {
    WindowBinding wanted = to(region, ++low);
    wanted.access = given;
    ASSERT_EQ(bind(wanted), low == 11 || !type1() ? Bound::kDone : Bound::kAnew);
    for (const Access needed : {kRemoteRead, kRemoteWrite, kRemoteAtomic, kLocalRead, kLocalWrite}) {
      EXPECT_EQ(fault(wanted.key, kIova + 1000, 1, needed),
                given.covers(needed) ? Fault::kNone : Fault::kAccess)
          << given.bits() << " " << needed.bits();
    }
    if (!type1()) unbind(wanted.key);
  }
}

/// Type 2B belongs to the queue pair that bound it, the others to their domain.
TEST_P(WindowTest, Users) {
  ASSERT_EQ(bind(to(make_user())), Bound::kDone);
  EXPECT_EQ(fault(key(1), kIova + 1000, 1, kBoth, kOtherDomain), Fault::kDomain);
  EXPECT_EQ(fault(key(1), kIova + 1000, 1, kBoth, kOtherQueuePair),
            GetParam() == RegionKind::kWindow2B ? Fault::kQueuePair : Fault::kNone);
}

TEST_P(WindowTest, ZeroBased) {
  WindowBinding wanted = to(make_user());
  wanted.access = wanted.access | kZeroBased;
  if (type1()) {
    EXPECT_EQ(bind(wanted), Bound::kRefused);
    return;
  }
  ASSERT_EQ(bind(wanted), Bound::kDone);
  EXPECT_EQ(table.resolve(key(1), kUser, 0, 5000, kRemoteRead).piece(3).data, memory.data() + 1003);
  EXPECT_EQ(fault(key(1), 0, 5001), Fault::kBounds);
  EXPECT_EQ(fault(key(1), kIova + 1000), Fault::kBounds);
}

/// Every kind of region by whether windows may be over it, and what the window then leads to.
TEST_P(WindowTest, OverEveryKindOfRegion) {
  const uint64_t mapped = bus.map(memory.data(), kBytes, Direction::kBidirectional).value();
  const uint64_t border = bus.map(memory.data() + 2000, 100, Direction::kBidirectional).value();
  const std::vector<BusRange> runs = {{mapped + 4096, 1500}, {mapped, 4000}, {border, 100}, {mapped, 1000}};
  const auto physical = std::move(PhysicalRegion::make(table, runs, {kDomain, kBindable, kIova}).value());
  const auto fast = std::move(FastRegion::make(table, kDomain, 2).value());
  PageList pages(bus, 2);
  // Pages by pages, the second one first.
  std::vector<std::byte> room(3 * 4096);
  std::byte* const page = room.data() + (4096 - reinterpret_cast<uintptr_t>(room.data()) % 4096);
  for (uint32_t i = 0; i < 2; ++i)
    pages.addresses()[i] = bus.map(page + (1 - i) * 4096, 4096, Direction::kBidirectional).value();
  ASSERT_EQ(pages.post({2, 12, 0, 2 * 4096}, kBindable), 0);
  const MemoryKey fast_key = MemoryKey::make(fast->first_key().index(), 77);
  ASSERT_EQ(bind_fast_region(table, {fast->first_key(), fast_key, kBindable, kIova, &pages}, kDomain),
            Outcome::kDone);

  EXPECT_EQ(bind(to(make_dma_region(table, kDomain, kLocalWrite).value())), Bound::kRefused);
  EXPECT_EQ(bind(to(make_reserved_lkey(table).value())), Bound::kRefused);
  const auto another = std::move(Window::make(table, kDomain, GetParam()).value());
  EXPECT_EQ(bind(to(another->first_key())), Bound::kRefused);
  another->end();

  ASSERT_EQ(bind(to(physical->key(), 1)), Bound::kDone);
  EXPECT_EQ(physical->end().error().code, EBUSY);
  Binding binding = table.resolve(key(1), kUser, kIova + 1000, 5000, kRemoteWrite);
  ASSERT_TRUE(binding.ok());
  EXPECT_EQ(binding.piece(0).data, memory.data() + 4096 + 1000);
  EXPECT_EQ(binding.piece(0).length, 500u);
  EXPECT_EQ(binding.piece(500).data, memory.data());
  EXPECT_EQ(binding.piece(4500).data, memory.data() + 2000);
  EXPECT_EQ(binding.piece(4999).data, memory.data() + 399);
  unbind(key(1));
  EXPECT_TRUE(physical->end().ok());

  ASSERT_EQ(bind(to(fast_key, 5)), Bound::kDone);
  EXPECT_EQ(fast->end().error().code, EBUSY);
  EXPECT_EQ(invalidation.begin(table, fast_key, kUser), Answer::kRefused);
  binding = table.resolve(key(5), kUser, kIova + 1000, 5000, kRemoteWrite);
  ASSERT_TRUE(binding.ok());
  EXPECT_EQ(binding.piece(0).data, page + 4096 + 1000);
  EXPECT_EQ(binding.piece(3096).data, page);
  unbind(key(5));
  EXPECT_EQ(invalidation.begin(table, fast_key, kUser), Answer::kOver);
  EXPECT_EQ(bind(to(fast_key, 6)), Bound::kRefused) << "a region that is not bound";
  EXPECT_TRUE(fast->end().ok());
}

/// What a bind refuses, for every type; the window stays free.
TEST_P(WindowTest, BindRefusals) {
  const MemoryKey good = make_user();
  std::vector<std::pair<const char*, WindowBinding>> cases;
  const auto add = [&](const char* what, auto change) {
    WindowBinding wanted = to(good);
    change(wanted);
    cases.emplace_back(what, wanted);
  };
  add("no such window", [&](WindowBinding& w) { w.window = w.key = MemoryKey{0xFFFF00}; });
  add("a region, not a window", [&](WindowBinding& w) { w.window = w.key = good; });
  add("another index", [&](WindowBinding& w) { w.key = MemoryKey{w.key.value + 256}; });
  add("the way of the other type", [&](WindowBinding& w) { w.type1 = !w.type1; });
  add("a right of no window", [](WindowBinding& w) { w.access = kLocalWrite; });
  add("an unknown right", [](WindowBinding& w) { w.access = kBoth | Access(1u << 12); });
  add("no such region", [](WindowBinding& w) { w.region = MemoryKey{0xFFFF00}; });
  add("another key of the region", [](WindowBinding& w) { w.region.value ^= 1; });
  add("a region of another domain", [&](WindowBinding& w) { w.region = make_user(kBindable, {4}); });
  add("a region without the right", [&](WindowBinding& w) { w.region = make_user(kLocalWrite | kBoth); });
  add("a zero-based region", [&](WindowBinding& w) {
    w.region = make_user(kBindable | kZeroBased);
    w.address = 0;
  });
  const MemoryKey read_only = make_user(kRemoteRead | kWindowBind);
  add("writing, over a region without local write", [&](WindowBinding& w) { w.region = read_only; });
  add("atomics, over a region without local write", [&](WindowBinding& w) {
    w.region = read_only;
    w.access = kRemoteAtomic;
  });
  add("before the region", [](WindowBinding& w) { w.address = kIova - 1; });
  add("behind the region", [](WindowBinding& w) { w.address = kIova + kBytes; });
  add("longer than the region", [](WindowBinding& w) {
    w.address = kIova;
    w.length = kBytes + 1;
  });
  add("a range that wraps", [](WindowBinding& w) { w.length = UINT64_MAX; });
  if (!type1()) add("no bytes", [](WindowBinding& w) { w.length = 0; });
  for (const auto& [what, wanted] : cases) EXPECT_EQ(bind(wanted), Bound::kRefused) << what;
  EXPECT_EQ(bind(to(good), kOtherDomain), Bound::kRefused) << "a queue pair of another domain";

  WindowBinding reading = to(read_only);
  reading.access = kRemoteRead;
  EXPECT_EQ(bind(reading), Bound::kDone) << "reading needs no local write";
  if (!type1()) {
    EXPECT_EQ(bind(to(good, 2)), Bound::kRefused) << "bound";
    EXPECT_EQ(fault(key(1), kIova + 1000, 1, kRemoteRead), Fault::kNone);
  }
}

/// What may be invalidated, by LOCAL_INV and by a peer's SEND with invalidate.
TEST_P(WindowTest, InvalidationRefusals) {
  const MemoryKey region = make_user();
  const auto refused = [&](MemoryKey wanted, const KeyUser& user = kUser) {
    const bool refuses = Invalidation::refuses(table, wanted, user);
    EXPECT_EQ(refuses, invalidation.begin(table, wanted, user) == Answer::kRefused);
    return refuses;
  };
  EXPECT_EQ(refused(window->first_key()), type1()) << "free";
  ASSERT_EQ(bind(to(region)), Bound::kDone);
  if (type1()) {
    EXPECT_TRUE(refused(key(1))) << "type 1";
    EXPECT_EQ(fault(key(1), kIova + 1000), Fault::kNone);
    return;
  }
  EXPECT_TRUE(refused(key(2))) << "another key of the index";
  EXPECT_TRUE(refused(key(1), kOtherDomain));
  EXPECT_EQ(fault(key(1), kIova + 1000), Fault::kNone);
  if (GetParam() == RegionKind::kWindow2B) {
    EXPECT_TRUE(refused(key(1), kOtherQueuePair)) << "another queue pair";
    EXPECT_FALSE(refused(key(1)));
  } else {
    EXPECT_FALSE(refused(key(1), kOtherQueuePair));
  }
  EXPECT_FALSE(refused(key(1))) << "invalidated already";
  EXPECT_FALSE(refused(key(1), kOtherQueuePair)) << "and of no queue pair any more";
  EXPECT_TRUE(refused(key(2)));
  EXPECT_TRUE(refused(key(1), kOtherDomain));
}

/// As long as a poller may be at what it was bound to, also for the second that invalidates it.
TEST_P(WindowTest, InvalidatedAlready_ExpectTheGracePeriodAndNoChange) {
  if (type1()) return;  // it is not invalidated so
  ASSERT_EQ(bind(to(make_user())), Bound::kDone);
  other.begin_turn();
  EXPECT_EQ(invalidation.begin(table, key(1), kUser), Answer::kPending);
  EXPECT_TRUE(invalidation.ended_binding());
  Invalidation again;
  EXPECT_EQ(again.begin(table, key(1), kUser), Answer::kPending);
  EXPECT_FALSE(again.ended_binding());
  EXPECT_FALSE(again.over(table));
  other.end_turn();
  EXPECT_TRUE(again.over(table));
  EXPECT_TRUE(invalidation.over(table));
  EXPECT_EQ(bind(to(make_user())), Bound::kDone);
}

/// A region with windows over it cannot go or change.
TEST_P(WindowTest, EndOfTheRegion_ExpectEbusyUntilTheWindowIsFree) {
  const MemoryKey region = make_user();
  const MemoryKey second = make_user();
  ASSERT_EQ(bind(to(region)), Bound::kDone);
  EXPECT_EQ(table.deregister(region).error().code, EBUSY);
  EXPECT_EQ(table.reregister(region, {.domain = DomainId{4}}).error().code, EBUSY);
  MemoryKey bound = key(1);
  if (type1()) {  // may be bound anew: to the same, then to another
    ASSERT_EQ(bind(to(region, 2)), Bound::kAnew);
    EXPECT_EQ(table.deregister(region).error().code, EBUSY);
    ASSERT_EQ(bind(to(second, 3)), Bound::kAnew);
    EXPECT_EQ(fault(key(2), kIova + 1000), Fault::kKey);
    EXPECT_TRUE(table.deregister(region).ok());
    EXPECT_EQ(table.deregister(second).error().code, EBUSY);
    bound = key(3);
  }
  unbind(bound);
  EXPECT_TRUE(table.deregister(type1() ? second : region).ok());
}

TEST_P(WindowTest, EndWhileBound_ExpectTheKeyDeadAndTheRegionFree) {
  const MemoryKey region = make_user();
  ASSERT_EQ(bind(to(region)), Bound::kDone);
  window->end();
  window.reset();
  EXPECT_EQ(table.regions(), 1u);
  EXPECT_TRUE(table.deregister(region).ok());
}

TEST_P(WindowTest, WhileAnotherHasWindowOrRegion_ExpectBusy) {
  const MemoryKey region = make_user();
  const MemoryKey second = make_user();
  RegionObject* const object = table.read_entry(region).object;
  for (RegionObject* const held : {object, static_cast<RegionObject*>(window.get())}) {
    held->lock();
    EXPECT_EQ(bind(to(region)), Bound::kBusy);
    held->unlock();
  }
  ASSERT_EQ(bind(to(region)), Bound::kDone);
  object->lock();
  if (type1()) {
    EXPECT_EQ(bind(to(second, 2)), Bound::kBusy);
  } else {
    EXPECT_EQ(invalidation.begin(table, key(1), kUser), Answer::kBusy);
  }
  EXPECT_EQ(fault(key(1), kIova + 1000), Fault::kNone);
  object->unlock();
  unbind(key(1));
  EXPECT_TRUE(table.deregister(region).ok());
  EXPECT_TRUE(table.deregister(second).ok());
}

/// Another poller may be at the memory: the old key is dead, but that is not over.
TEST_P(WindowTest, UnbindDuringAnothersTurn_ExpectItToBePendingUntilItsEnd) {
  const MemoryKey region = make_user();
  ASSERT_EQ(invalidation.begin_bind(table, to(region), kUser), Answer::kOver);
  other.begin_turn();
  if (type1()) {
    EXPECT_EQ(invalidation.begin_bind(table, to(region, 2), kUser), Answer::kPending);
    EXPECT_EQ(fault(key(1), kIova + 1000), Fault::kKey);
    EXPECT_EQ(fault(key(2), kIova + 1000), Fault::kNone);
  } else {
    EXPECT_EQ(invalidation.begin(table, key(1), kUser), Answer::kPending);
    EXPECT_EQ(fault(key(1), kIova + 1000), Fault::kState);
  }
  EXPECT_FALSE(invalidation.over(table));
  other.end_turn();
  EXPECT_TRUE(invalidation.over(table));
}

/// As `uroce fault break --key` does, whichever way it was made.
TEST_P(WindowTest, BreakItsKey_ExpectItUnboundAndToBeBoundAnew) {
  const MemoryKey region = make_user();
  EXPECT_EQ(break_key(table, key(1), invalidation), Answer::kRefused) << "not bound";
  ASSERT_EQ(invalidation.begin_bind(table, to(region), kUser), Answer::kOver);
  EXPECT_TRUE(has_windows(table, region));
  EXPECT_EQ(break_key(table, key(2), invalidation), Answer::kRefused) << "another key";
  other.begin_turn();
  EXPECT_EQ(break_key(table, key(1), invalidation), Answer::kPending);
  EXPECT_EQ(fault(key(1), kIova + 1000), Fault::kState);
  EXPECT_FALSE(invalidation.over(table));
  other.end_turn();
  EXPECT_TRUE(invalidation.over(table));
  EXPECT_FALSE(has_windows(table, region));
  EXPECT_EQ(break_key(table, key(1), invalidation), Answer::kRefused) << "twice";
  EXPECT_EQ(invalidation.begin_bind(table, to(region, 2), kUser), Answer::kOver);
  EXPECT_EQ(fault(key(2), kIova + 1000), Fault::kNone);
  EXPECT_EQ(break_key(table, region, invalidation), Answer::kRefused) << "another kind";
}

TEST_P(WindowTest, MakeRefusals) {
  EXPECT_EQ(Window::make(table, {}, GetParam()).error().code, EINVAL);
  std::vector<std::unique_ptr<Window>> all;
  for (;;) {
    Result<std::unique_ptr<Window>> made = Window::make(table, kDomain, GetParam());
    if (!made) {
      EXPECT_EQ(made.error().code, ENOMEM);
      break;
    }
    all.push_back(std::move(*made));
  }
  for (const auto& one : all) one->end();
}

}  // namespace
}  // namespace uroce::mem
