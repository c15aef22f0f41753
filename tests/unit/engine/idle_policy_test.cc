#include "engine/scheduling/idle_policy.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace uroce::engine {
namespace {

using Look = IdlePolicy::Look;
using IdleAction = IdlePolicy::IdleAction;

constexpr Duration kTakeover = microseconds(50);

/// The background thread on a clock that only its sleeps move.
class Thread {
 public:
  IdleAction look(Look look) {
    look.now = now;
    decision = policy.after(look);
    if (decision.action == IdleAction::kSleep || decision.action == IdleAction::kPark)
      now = now + decision.duration;
    return decision.action;
  }
  /// The application has just made a turn.
  IdleAction attended() { return look({.due = now + kTakeover}); }
  IdleAction alone(bool worked) { return look({.due = kNever, .in_charge = 1, .worked = worked}); }

  Instant now{1'000'000'000};
  IdlePolicy policy{kTakeover};
  IdlePolicy::Decision decision{};
};

TEST(IdlePolicy, APollerIsLeftAloneLaterWhileItsThreadWaitsForAProcessor) {
  EXPECT_EQ(IdlePolicy::patience(kTakeover, false), kTakeover);
  EXPECT_EQ(IdlePolicy::patience(kTakeover, true), IdlePolicy::kYieldedMax);
  EXPECT_GT(IdlePolicy::kYieldedMax, kTakeover);
  // A program that wants to be left alone longer is.
  EXPECT_EQ(IdlePolicy::patience(seconds(1), true), seconds(1));
}

TEST(IdlePolicy, LooksLessAndLessOftenAtAnApplicationThatIsAlwaysThere) {
  Thread thread;
  EXPECT_EQ(thread.attended(), IdleAction::kSleep);
  EXPECT_EQ(thread.decision.duration, kTakeover) << "it may leave right away";
  Duration last = thread.decision.duration;
  for (int i = 0; i < 40; ++i) {
    EXPECT_EQ(thread.attended(), IdleAction::kSleep);
    EXPECT_GE(thread.decision.duration, last);
    last = thread.decision.duration;
  }
  EXPECT_GE(last, IdlePolicy::kSleepMax);
}

TEST(IdlePolicy, LooksOftenAgainWhenItWasRightToTakeOver) {
  Thread thread;
  for (int i = 0; i < 40; ++i) thread.attended();
  // What it found to do was waiting for it: an application that waits for memory to change, for one.
  EXPECT_EQ(thread.alone(true), IdleAction::kPollAgain);
  EXPECT_EQ(thread.attended(), IdleAction::kSleep);
  EXPECT_EQ(thread.decision.duration, kTakeover);
}

TEST(IdlePolicy, KeepsSleepingLongWhenATakeoverFoundNothingToDo) {
  Thread thread;
  for (int i = 0; i < 40; ++i) thread.attended();
  // The application was only between two turns ...
  EXPECT_EQ(thread.alone(false), IdleAction::kSpin);
  EXPECT_EQ(thread.attended(), IdleAction::kSleep);
  EXPECT_EQ(thread.decision.duration, IdlePolicy::kSleepMax);
  // ... or away for a while in which no packet came.
  EXPECT_EQ(thread.alone(false), IdleAction::kSpin);
  EXPECT_EQ(thread.alone(false), IdleAction::kSpin);
  EXPECT_EQ(thread.attended(), IdleAction::kSleep);
  EXPECT_EQ(thread.decision.duration, IdlePolicy::kSleepMax);
}

TEST(IdlePolicy, DoesNotSleepWhileThereIsTraffic) {
  Thread thread;
  EXPECT_EQ(thread.alone(false), IdleAction::kSpin) << "the application may have left in the middle of it";
  for (int i = 0; i < 1000; ++i) {
    EXPECT_EQ(thread.alone(true), IdleAction::kPollAgain);
    thread.now = thread.now + kTakeover - nanoseconds(1);
    EXPECT_EQ(thread.alone(false), IdleAction::kSpin);
  }
}

TEST(IdlePolicy, SleepsLongerAndLongerWhenNothingHappens) {
  Thread thread;
  thread.alone(true);
  thread.now = thread.now + kTakeover;
  Duration expected = kTakeover;
  for (int i = 0; i < 60; ++i) {
    EXPECT_EQ(thread.alone(false), IdleAction::kPark);
    EXPECT_EQ(thread.decision.duration, expected);
    expected = std::min(expected * 2, IdlePolicy::kSleepMax);
  }
  EXPECT_EQ(thread.decision.duration, IdlePolicy::kSleepMax);
  EXPECT_EQ(thread.alone(true), IdleAction::kPollAgain);
  EXPECT_EQ(thread.alone(false), IdleAction::kSpin) << "and is awake at once when something does";
}

TEST(IdlePolicy, NeverSleepsLessThanItTakesToTakeOver) {
  constexpr Duration kLong = milliseconds(20);
  IdlePolicy policy(kLong);
  Instant now{1'000'000'000};
  for (int i = 0; i < 10; ++i) {
    const IdlePolicy::Decision decision = policy.after({.now = now, .due = now + kLong});
    EXPECT_EQ(decision.action, IdleAction::kSleep);
    EXPECT_EQ(decision.duration, kLong);
    now = now + decision.duration;
  }
}

TEST(IdlePolicy, NeitherSpinsNorSleepsForLongInChargeWhenItTakesOverLate) {
  IdlePolicy policy(seconds(1));
  Instant now{10'000'000'000};
  const IdlePolicy::Look alone{.now = now, .due = kNever, .in_charge = 1};
  EXPECT_EQ(policy.after(alone).action, IdleAction::kSpin);
  now = now + IdlePolicy::kSleepMax - nanoseconds(1);
  EXPECT_EQ(policy.after({.now = now, .due = kNever, .in_charge = 1}).action, IdleAction::kSpin);
  now = now + nanoseconds(1);
  const IdlePolicy::Decision decision = policy.after({.now = now, .due = kNever, .in_charge = 1});
  EXPECT_EQ(decision.action, IdleAction::kPark);
  EXPECT_EQ(decision.duration, IdlePolicy::kSleepMax);
}

TEST(IdlePolicy, SleepsThroughWhatAnApplicationDoesThatIsAtAnotherPoller) {
  // One poller is left alone, the other is the application's: each turn of that one would wake a thread that
  // sleeps for the sake of the first.
  Thread thread;
  for (int i = 0; i < 1000; ++i) {
    const IdleAction action = thread.look({.due = thread.now + kTakeover, .in_charge = 1});
    if (action == IdleAction::kSpin) thread.now = thread.now + microseconds(1);
    EXPECT_NE(action, IdleAction::kPark);
  }
  EXPECT_GE(thread.decision.duration, IdlePolicy::kSleepMax);
  // The application leaves.
  EXPECT_EQ(thread.look({.due = kNever, .in_charge = 2}), IdleAction::kSpin)
      << "perhaps in the middle of traffic";
}

}  // namespace
}  // namespace uroce::engine
