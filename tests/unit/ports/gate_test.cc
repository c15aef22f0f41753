#include "drivers/port/ethdev/gate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

namespace uroce::drivers {
namespace {

constexpr Duration kForEver = seconds(600);

/// A poller's look at its queue, in which there are so many frames.
uint32_t look(Gate& gate, uint16_t queue, std::atomic<uint32_t>& frames) {
  if (!gate.enter(queue)) return 0;
  const uint32_t taken = frames.exchange(0);
  if (taken == 0) gate.found_nothing(queue);
  gate.leave(queue);
  return taken;
}

TEST(Gate, IsNotClosedBeforeThePollersHaveTakenWhatIsThere) {
  constexpr uint16_t kQueues = 2;
  Gate gate(kQueues);
  std::atomic<uint32_t> frames[kQueues] = {3, 5};
  std::atomic<bool> closed{false};
  gate.open();
  std::thread other([&] {
    gate.wait_until_empty(kForEver);
    gate.close();
    closed = true;
  });
  uint32_t taken = 0;
  while (!closed) {
    for (uint16_t queue = 0; queue < kQueues; ++queue) taken += look(gate, queue, frames[queue]);
    std::this_thread::yield();
  }
  other.join();
  EXPECT_EQ(taken, 8u);
}

/// Naps take longer than they say.
TEST(Gate, PollersThatDoNotLookAreWaitedForByAClock) {
  Gate gate(1);
  gate.open();
  constexpr auto kPatience = milliseconds(50);
  auto shortest = std::chrono::nanoseconds::max();
  for (int i = 0; i < 5; ++i) {
    const auto start = std::chrono::steady_clock::now();
    gate.wait_until_empty(kPatience);
    shortest = std::min<std::chrono::nanoseconds>(shortest, std::chrono::steady_clock::now() - start);
  }
  EXPECT_GE(shortest.count(), kPatience.ns);
  EXPECT_LT(shortest.count(), kPatience.ns + milliseconds(20).ns) << "with 1,000 naps of 50 us it was 100 ms";
}

TEST(Gate, OfPollersThatAreOutIsNotWaitedFor) {
  Gate gate(1);
  gate.wait_until_empty(kForEver);
}

TEST(Gate, OfPollersThatHaveEndedIsNotWaitedFor) {
  Gate gate(1);
  gate.open();
  std::thread other([&gate] { gate.wait_until_empty(kForEver); });
  gate.pollers_ended();
  other.join();
}

}  // namespace
}  // namespace uroce::drivers
