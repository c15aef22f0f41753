#include "engine/attendance_policy.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace uroce::engine {
namespace {

using Look = AttendancePolicy::Look;
using Rest = AttendancePolicy::Rest;

constexpr Duration kTakeover = microseconds(50);

/// The background thread on a clock that only its sleeps move.
class Thread {
 public:
  Rest look(Look look) {
    look.now = now;
    decision = policy.after(look);
    if (decision.rest == Rest::kTrust || decision.rest == Rest::kIdle) now = now + decision.duration;
    return decision.rest;
  }
  /// The application has just made a turn.
  Rest attended() { return look({.due = now + kTakeover}); }
  Rest alone(bool worked) { return look({.due = kNever, .in_charge = 1, .worked = worked}); }

  Instant now{1'000'000'000};
  AttendancePolicy policy{kTakeover};
  AttendancePolicy::Decision decision{};
};

TEST(AttendancePolicy, LooksLessAndLessOftenAtAnApplicationThatIsAlwaysThere) {
  Thread thread;
  EXPECT_EQ(thread.attended(), Rest::kTrust);
  EXPECT_EQ(thread.decision.duration, kTakeover) << "it may leave right away";
  Duration last = thread.decision.duration;
  for (int i = 0; i < 40; ++i) {
    EXPECT_EQ(thread.attended(), Rest::kTrust);
    EXPECT_GE(thread.decision.duration, last);
    last = thread.decision.duration;
  }
  EXPECT_GE(last, AttendancePolicy::kDearSleepMax) << "it is longest_sleep() that ends it";
}

TEST(AttendancePolicy, LooksOftenAgainWhenItWasRightToTakeOver) {
  Thread thread;
  for (int i = 0; i < 40; ++i) thread.attended();
  // What it found to do was waiting for it: an application that waits for memory to change, for one.
  EXPECT_EQ(thread.alone(true), Rest::kNone);
  EXPECT_EQ(thread.attended(), Rest::kTrust);
  EXPECT_EQ(thread.decision.duration, kTakeover);
}

TEST(AttendancePolicy, GoesOnTrustingAnApplicationThatWasOnlyBetweenTwoTurns) {
  Thread thread;
  for (int i = 0; i < 40; ++i) thread.attended();
  EXPECT_EQ(thread.alone(false), Rest::kExpect);
  EXPECT_EQ(thread.attended(), Rest::kTrust);
  EXPECT_GT(thread.decision.duration, kTakeover);

  EXPECT_EQ(thread.alone(false), Rest::kExpect);
  EXPECT_EQ(thread.alone(false), Rest::kExpect) << "this time it has left";
  EXPECT_EQ(thread.attended(), Rest::kTrust);
  EXPECT_EQ(thread.decision.duration, kTakeover);
}

TEST(AttendancePolicy, DoesNotSleepWhileThereIsTraffic) {
  Thread thread;
  EXPECT_EQ(thread.alone(false), Rest::kExpect) << "the application may have left in the middle of it";
  for (int i = 0; i < 1000; ++i) {
    EXPECT_EQ(thread.alone(true), Rest::kNone);
    thread.now = thread.now + kTakeover - nanoseconds(1);
    EXPECT_EQ(thread.alone(false), Rest::kExpect);
  }
}

TEST(AttendancePolicy, SleepsLongerAndLongerWhenNothingHappens) {
  Thread thread;
  thread.alone(true);
  const Instant since = thread.now;
  thread.now = thread.now + kTakeover;
  Duration last{};
  for (int i = 0; i < 60; ++i) {
    EXPECT_EQ(thread.alone(false), Rest::kIdle);
    EXPECT_GE(thread.decision.duration, std::max(last, kTakeover));
    last = thread.decision.duration;
    EXPECT_LE(last * 4, std::max(thread.now - since, kTakeover * 4)) << "a quarter of the time is added";
  }
  EXPECT_EQ(thread.alone(true), Rest::kNone);
  EXPECT_EQ(thread.alone(false), Rest::kExpect) << "and is awake at once when something does";
}

TEST(AttendancePolicy, SleepsThroughWhatAnApplicationDoesThatIsAtAnotherPoller) {
  // One poller is nobody's, the other the application's: each turn of that one would wake a thread that
  // sleeps for the sake of the first.
  Thread thread;
  for (int i = 0; i < 1000; ++i) {
    const Rest rest = thread.look({.due = thread.now + kTakeover, .in_charge = 1});
    if (rest == Rest::kExpect) thread.now = thread.now + microseconds(1);
    EXPECT_NE(rest, Rest::kIdle);
  }
  EXPECT_GE(thread.decision.duration, AttendancePolicy::kSleepMax);
  // The application leaves.
  EXPECT_EQ(thread.look({.due = kNever, .in_charge = 2}), Rest::kExpect)
      << "perhaps in the middle of traffic";
}

TEST(AttendancePolicy, SleepsAsLongAsWakingUpIsDear) {
  Thread thread;
  thread.alone(true);
  EXPECT_EQ(thread.policy.longest_sleep(microseconds(2)), AttendancePolicy::kSleepMax);
  EXPECT_EQ(thread.policy.longest_sleep(microseconds(30)), microseconds(30) * AttendancePolicy::kIdleShare);
  EXPECT_EQ(thread.policy.longest_sleep(milliseconds(30)), AttendancePolicy::kDearSleepMax);
  thread.now = thread.now + AttendancePolicy::kLongIdle + microseconds(1);
  thread.alone(false);
  EXPECT_EQ(thread.policy.longest_sleep(microseconds(30)),
            microseconds(30) * AttendancePolicy::kLongIdleShare);
}

TEST(AttendancePolicy, SleepsLongerTheLongerTheApplicationHasBeenThere) {
  constexpr Duration kCheap = microseconds(2);
  Thread thread;
  thread.attended();
  EXPECT_EQ(thread.policy.longest_sleep(kCheap), AttendancePolicy::kSleepMax);
  const auto attended_for = [&](Duration time) {
    thread.now = thread.now + time;
    thread.attended();
    return thread.policy.longest_sleep(kCheap);
  };
  EXPECT_EQ(attended_for(milliseconds(32)), AttendancePolicy::kSleepMax);
  const Duration later = attended_for(milliseconds(96));
  EXPECT_GT(later, AttendancePolicy::kSleepMax);
  EXPECT_LT(later, AttendancePolicy::kDearSleepMax);
  EXPECT_EQ(attended_for(seconds(10)), AttendancePolicy::kDearSleepMax);
  thread.alone(true);
  thread.attended();
  EXPECT_EQ(thread.policy.longest_sleep(kCheap), AttendancePolicy::kSleepMax) << "it had left meanwhile";
}

}  // namespace
}  // namespace uroce::engine
