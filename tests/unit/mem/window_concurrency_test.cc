// Windows whose keys are used while they are bound and unbound and regions come and go.
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/values/random.h"
#include "mem/regions/invalidation.h"
#include "mem/regions/window.h"
#include "tests/unit/mem/turns.h"

namespace uroce::mem {
namespace {

using Answer = Invalidation::Answer;

constexpr uint64_t kIova = 0x40000;
constexpr DomainId kDomain{3};
constexpr KeyUser kUser{.domain = kDomain, .queue_pair = {17}};
constexpr Access kBindable = kLocalWrite | kRemoteWrite | kRemoteRead | kWindowBind;
constexpr Access kBoth = kRemoteWrite | kRemoteRead;

/// Three pollers bind and invalidate windows of either type over two regions and write through whatever key
/// is newest, while the control path ends and makes regions. When a region has ended its memory is its
/// owner's.
TEST(WindowConcurrency, BindInvalidateAndDeregisterWhilePollersWrite_ExpectNoByteTouchedAfterwards) {
  const uint64_t seed = 161803;
  SCOPED_TRACE("seed " + std::to_string(seed));
  constexpr size_t kPollers = 3;
  constexpr int kRounds = 1500;
  Turns turns(kPollers);
  LockedMemory locked;
  RegionTable table({.entries_max = 64, .grace_period = &turns, .locked_memory = &locked});
  std::unique_ptr<Window> windows[] = {
      std::move(Window::make(table, kDomain, RegionKind::kWindow1).value()),
      std::move(Window::make(table, kDomain, RegionKind::kWindow2A).value())};
  std::atomic<uint32_t> newest[2]{};
  std::atomic<uint32_t> region{0};
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> written{0};
  std::atomic<uint64_t> bound{0};

  std::vector<std::thread> pollers;
  for (size_t poller = 0; poller < kPollers; ++poller) {
    pollers.emplace_back([&, poller] {
      const Turns::Self self(poller);
      Random random(seed + poller);
      Invalidation invalidation;
      while (!stop.load()) {
        turns.enter(poller);
        for (int i = 0; i < 4; ++i) {
          const size_t type = random.below(2);
          const MemoryKey key{newest[type].load()};
          const Binding binding = table.resolve(key, kUser, kIova, 256, kRemoteWrite);
          if (!binding.ok()) continue;
          if (random.chance(1, 16)) std::this_thread::yield();
          for (uint64_t at = 0; at < 256; at += 64)
            __atomic_store_n(reinterpret_cast<uint8_t*>(binding.piece(at).data), 0xEE, __ATOMIC_RELAXED);
          written.fetch_add(1);
        }
        if (invalidation.over(table)) {
          const size_t type = random.below(2);
          const MemoryKey first = windows[type]->first_key();
          if (type == 1 && random.chance(1, 2)) {
            invalidation.begin(table, MemoryKey{newest[1].load()}, kUser);
          } else {
            const MemoryKey key = MemoryKey::make(first.index(), static_cast<uint8_t>(random.below(256)));
            const bool nothing = type == 0 && random.chance(1, 2);
            const Answer answer = invalidation.begin_bind(table,
                                                          {.window = first,
                                                           .key = key,
                                                           .region = MemoryKey{region.load()},
                                                           .access = kBoth,
                                                           .address = kIova,
                                                           .length = nothing ? 0u : 256u,
                                                           .type1 = type == 0},
                                                          kUser);
            if (answer == Answer::kOver || answer == Answer::kPending) {
              newest[type].store(key.value);
              if (!nothing) bound.fetch_add(1);
            }
          }
        }
        turns.leave(poller);
        std::this_thread::yield();
      }
      while (!invalidation.over(table)) std::this_thread::yield();
    });
  }
  std::vector<std::byte> memory[2] = {std::vector<std::byte>(256), std::vector<std::byte>(256)};
  uint64_t busy = 0;
  MemoryKey current;
  for (int round = 0; round < kRounds || written.load() < 1000 || bound.load() < 100; ++round) {
    const MemoryKey before = std::exchange(
        current,
        table.register_user({kDomain, memory[round % 2].data(), 256, kIova, kBindable}).value().lkey);
    region.store(current.value);
    if (before == MemoryKey{}) continue;
    for (Status ended = table.deregister(before); !ended; ended = table.deregister(before)) {
      ASSERT_EQ(ended.error().code, EBUSY);
      ++busy;
      std::this_thread::yield();
    }
    std::vector<std::byte>& ours = memory[(round + 1) % 2];
    const auto mark = static_cast<std::byte>(round);
    ours.assign(256, mark);
    std::this_thread::yield();
    ASSERT_EQ(ours, std::vector<std::byte>(256, mark));
  }
  stop.store(true);
  for (std::thread& poller : pollers) poller.join();
  EXPECT_GT(busy, 0u);
  for (const auto& window : windows) window->end();
  EXPECT_TRUE(table.deregister(current).ok());
  EXPECT_EQ(table.regions(), 0u);
}

}  // namespace
}  // namespace uroce::mem
