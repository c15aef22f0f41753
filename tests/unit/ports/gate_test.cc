#include "drivers/port/ethdev/gate.h"

#include <gtest/gtest.h>

#include <atomic>
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

TEST(Gate, OfPollersThatDoNotLookIsNotWaitedForForEver) {
  Gate gate(1);
  gate.open();
  gate.wait_until_empty(milliseconds(1));
}

TEST(Gate, OfPollersThatAreOutIsNotWaitedFor) {
  Gate gate(1);
  gate.wait_until_empty(kForEver);
}

}  // namespace
}  // namespace uroce::drivers
