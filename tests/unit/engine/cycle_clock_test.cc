#include "engine/platform/cycle_clock.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "engine/platform/clock.h"

namespace uroce::engine {
namespace {

/// A machine whose clocks go on as a test says.
struct Machine {
  static inline double ns = 0;
  static inline double counter = 0;
  static inline double cycles_per_ns = 0;
  static inline int interruptions = 0;  // of those that look at both clocks
  static inline int system_looks = 0;

  static uint64_t cycles() { return static_cast<uint64_t>(static_cast<int64_t>(counter)); }
  static Instant system() {
    ++system_looks;
    const Instant seen{static_cast<int64_t>(ns)};
    if (interruptions > 0) {
      --interruptions;
      pass(microseconds(300));
    }
    return seen;
  }
  static void pass(Duration time) {
    ns += static_cast<double>(time.ns);
    counter += static_cast<double>(time.ns) * cycles_per_ns;
  }
};

class CycleClocks : public ::testing::TestWithParam<double> {
 protected:
  using Clock = CycleClock<Machine>;

  CycleClocks() {
    Machine::ns = 5e15;
    Machine::counter = 1e12;
    Machine::cycles_per_ns = GetParam();
    Machine::interruptions = 0;
  }

  /// How far it is from the system's clock, which it is ahead of if that is positive.
  int64_t error() { return clock_.now().ns - static_cast<int64_t>(Machine::ns); }
  void run(Duration time, Duration step = microseconds(10)) {
    for (Duration passed; passed < time; passed = passed + step) {
      Machine::pass(step);
      clock_.now();
    }
  }
  void expect_right() { EXPECT_LE(std::abs(error()), 1000); }

  Clock clock_;
};

TEST_P(CycleClocks, TellTheTimeOfTheSystem) {
  for (int i = 0; i < 10'000; ++i) {
    Machine::pass(microseconds(1 + i % 50));
    ASSERT_LE(std::abs(error()), 1000) << i;
  }
}

TEST_P(CycleClocks, LookAtTheSystemsClockRarely) {
  run(milliseconds(10));
  const int before = Machine::system_looks;
  run(milliseconds(1000));
  EXPECT_LE(Machine::system_looks - before, 1000 / 20 + 1);
}

TEST_P(CycleClocks, FollowAChangeOfTheRate) {
  run(milliseconds(100));
  for (const double change : {1.0005, 0.9995, 1.01, 0.99}) {
    Machine::cycles_per_ns = GetParam() * change;
    Instant last = clock_.now();
    for (int i = 0; i < 10'000; ++i) {
      Machine::pass(microseconds(10));
      const Instant now = clock_.now();
      ASSERT_GE(now, last) << change << ", " << i;
      last = now;
    }
    expect_right();
  }
}

TEST_P(CycleClocks, AreRightAfterALongTimeWithoutALook) {
  run(milliseconds(100));
  for (const int64_t minutes : {1, 60, 60 * 24 * 30}) {
    Machine::pass(seconds(60 * minutes));
    expect_right();
    run(milliseconds(10));
    expect_right();
  }
}

TEST_P(CycleClocks, FollowACounterThatJumps) {
  run(milliseconds(100));
  // Forwards while the system's clock stands still, backwards, and to where it was when it began.
  for (const double to : {3e12, 2e12, 0.0}) {
    Machine::counter = to;
    run(Clock::kSyncEvery + microseconds(20));
    expect_right();
    run(milliseconds(100));
    expect_right();
  }
}

TEST_P(CycleClocks, ACounterThatStandsStillIsNotTheTime) {
  run(milliseconds(100));
  Machine::cycles_per_ns = 0;
  Machine::pass(seconds(1));
  Machine::counter += static_cast<double>(Clock::kSyncEvery.ns) * GetParam();
  run(milliseconds(100));
  expect_right();
}

TEST_P(CycleClocks, AnInterruptedLookIsRepeated) {
  std::mt19937 random(1);
  for (int i = 0; i < 200; ++i) {
    Machine::interruptions = static_cast<int>(random() % 8);
    run(milliseconds(15), microseconds(70));
    Machine::interruptions = 0;
    expect_right();
  }
}

INSTANTIATE_TEST_SUITE_P(Of, CycleClocks, ::testing::Values(0.5, 1.0, 2.1, 5.7),
                         [](const auto& cycles_per_ns) {
                           return std::to_string(static_cast<int>(cycles_per_ns.param * 1000)) + "MHz";
                         });

TEST(Clock, IsTheSystemsClockWhereverItIsRead) {
  count_cycles_if_steady();
  const Instant end = MachineClocks::system() + milliseconds(100);
  while (MachineClocks::system() < end) {
    const Instant before = MachineClocks::system();
    const Instant now = clock_now();
    const Instant after = MachineClocks::system();
    // A rate that was measured for a millisecond, and the time until the next look.
    ASSERT_GT(now, before - milliseconds(1));
    ASSERT_LT(now, after + milliseconds(1));
  }
}

}  // namespace
}  // namespace uroce::engine
