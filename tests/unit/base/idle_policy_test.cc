#include "base/threads/idle_policy.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace uroce {
namespace {

using Action = IdlePolicy::Action;
using Awake = IdlePolicy::Awake;
using Look = IdlePolicy::Look;

constexpr Duration kTakeover = microseconds(50);

/// A thread on a clock that only its sleeps move: of inline pollers, if nothing else is said.
class Thread {
 public:
  explicit Thread(const IdlePolicy& of = IdlePolicy::takes_over(Awake::kSpin, kTakeover)) : policy(of) {}

  Action look(Look look) {
    look.now = now;
    decision = policy.after(look);
    now = now + decision.duration;
    return decision.action;
  }
  /// The application has just made a turn.
  Action attended() { return look({.due = now + kTakeover, .in_charge = 0}); }
  Action alone(bool worked) { return look({.worked = worked}); }
  Action in_vain() { return alone(false); }
  void yield(Duration takes) {
    policy.yielded(now, now + takes);
    now = now + takes;
  }

  Instant now{1'000'000'000};
  IdlePolicy policy;
  IdlePolicy::Decision decision{};
};

TEST(IdlePolicy, APollerIsLeftAloneLaterWhileItsThreadWaitsForAProcessor) {
  EXPECT_EQ(IdlePolicy::patience(kTakeover, false), kTakeover);
  EXPECT_EQ(IdlePolicy::patience(kTakeover, true), IdleLimits::kYieldedMax);
  EXPECT_GT(IdleLimits::kYieldedMax, kTakeover);
  // A program that wants to be left alone longer is.
  EXPECT_EQ(IdlePolicy::patience(seconds(1), true), seconds(1));
}

TEST(IdlePolicy, LooksLessAndLessOftenAtAnApplicationThatIsAlwaysThere) {
  Thread thread;
  EXPECT_EQ(thread.attended(), Action::kSleep);
  EXPECT_EQ(thread.decision.duration, kTakeover) << "it may leave right away";
  Duration last = thread.decision.duration;
  for (int i = 0; i < 40; ++i) {
    EXPECT_EQ(thread.attended(), Action::kSleep);
    EXPECT_GE(thread.decision.duration, last);
    last = thread.decision.duration;
  }
  EXPECT_GE(last, IdleLimits::kSleepMax);
}

TEST(IdlePolicy, LooksOftenAgainWhenItWasRightToTakeOver) {
  Thread thread;
  for (int i = 0; i < 40; ++i) thread.attended();
  // What it found to do was waiting for it: an application that waits for memory to change, for one.
  EXPECT_EQ(thread.alone(true), Action::kPollAgain);
  EXPECT_EQ(thread.attended(), Action::kSleep);
  EXPECT_EQ(thread.decision.duration, kTakeover);
}

TEST(IdlePolicy, KeepsSleepingLongWhenATakeoverFoundNothingToDo) {
  Thread thread;
  for (int i = 0; i < 40; ++i) thread.attended();
  // The application was only between two turns ...
  EXPECT_EQ(thread.in_vain(), Action::kSpin);
  EXPECT_EQ(thread.attended(), Action::kSleep);
  EXPECT_EQ(thread.decision.duration, IdleLimits::kSleepMax);
  // ... or away for a while in which no packet came.
  EXPECT_EQ(thread.in_vain(), Action::kSpin);
  EXPECT_EQ(thread.in_vain(), Action::kSpin);
  EXPECT_EQ(thread.attended(), Action::kSleep);
  EXPECT_EQ(thread.decision.duration, IdleLimits::kSleepMax);
}

TEST(IdlePolicy, DoesNotSleepWhileThereIsTraffic) {
  Thread thread;
  EXPECT_EQ(thread.in_vain(), Action::kSpin) << "the application may have left in the middle of it";
  for (int i = 0; i < 1000; ++i) {
    EXPECT_EQ(thread.alone(true), Action::kPollAgain);
    thread.now = thread.now + kTakeover - nanoseconds(1);
    EXPECT_EQ(thread.in_vain(), Action::kSpin);
  }
}

TEST(IdlePolicy, SleepsLongerAndLongerWhenNothingHappens) {
  Thread thread;
  thread.alone(true);
  thread.now = thread.now + kTakeover;
  Duration expected = kTakeover;
  for (int i = 0; i < 60; ++i) {
    EXPECT_EQ(thread.in_vain(), Action::kPark);
    EXPECT_EQ(thread.decision.duration, expected);
    expected = std::min(expected * 2, IdleLimits::kSleepMax);
  }
  EXPECT_EQ(thread.decision.duration, IdleLimits::kSleepMax);
  EXPECT_EQ(thread.alone(true), Action::kPollAgain);
  EXPECT_EQ(thread.in_vain(), Action::kSpin) << "and is awake at once when something does";
}

TEST(IdlePolicy, NeverSleepsLessThanItTakesToTakeOver) {
  constexpr Duration kLong = milliseconds(20);
  IdlePolicy policy = IdlePolicy::takes_over(Awake::kSpin, kLong);
  Instant now{1'000'000'000};
  for (int i = 0; i < 10; ++i) {
    const IdlePolicy::Decision decision = policy.after({.now = now, .due = now + kLong, .in_charge = 0});
    EXPECT_EQ(decision.action, Action::kSleep);
    EXPECT_EQ(decision.duration, kLong);
    now = now + decision.duration;
  }
}

TEST(IdlePolicy, NeitherSpinsNorSleepsForLongInChargeWhenItTakesOverLate) {
  Thread thread(IdlePolicy::takes_over(Awake::kSpin, seconds(1)));
  EXPECT_EQ(thread.in_vain(), Action::kSpin);
  thread.now = thread.now + IdleLimits::kSleepMax - nanoseconds(1);
  EXPECT_EQ(thread.in_vain(), Action::kSpin);
  thread.now = thread.now + nanoseconds(1);
  EXPECT_EQ(thread.in_vain(), Action::kPark);
  EXPECT_EQ(thread.decision.duration, IdleLimits::kSleepMax);
}

TEST(IdlePolicy, SleepsThroughWhatAnApplicationDoesThatIsAtAnotherPoller) {
  // One poller is left alone, the other is the application's: each turn of that one would wake a thread that
  // sleeps for the sake of the first.
  Thread thread;
  for (int i = 0; i < 1000; ++i) {
    const Action action = thread.look({.due = thread.now + kTakeover, .in_charge = 1});
    if (action == Action::kSpin) thread.now = thread.now + microseconds(1);
    EXPECT_NE(action, Action::kPark);
  }
  EXPECT_GE(thread.decision.duration, IdleLimits::kSleepMax);
  // The application leaves.
  EXPECT_EQ(thread.look({.due = kNever, .in_charge = 2}), Action::kSpin)
      << "perhaps in the middle of traffic";
}

TEST(IdlePolicy, ADedicatedThreadStaysAwakeForEver) {
  Thread spins(IdlePolicy::dedicated(Awake::kSpin));
  Thread yields(IdlePolicy::dedicated(Awake::kYield));
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(spins.in_vain(), Action::kSpin);
    EXPECT_EQ(yields.in_vain(), Action::kYield);
    spins.now = spins.now + seconds(1000);
    yields.yield(milliseconds(3));  // which is what it is to do, whoever takes the CPU
  }
}

TEST(IdlePolicy, OneThatSharesItsProcessorNapsAfterAnotherThreadHasSpunOnIt) {
  Thread thread(IdlePolicy::dedicated(Awake::kShare));
  EXPECT_EQ(thread.in_vain(), Action::kYield);
  thread.yield(IdleLimits::kYieldBriefMax);
  EXPECT_EQ(thread.in_vain(), Action::kYield) << "one that only looked in";
  thread.yield(IdleLimits::kYieldBriefMax + nanoseconds(1));
  const Instant taken = thread.now;
  while (thread.now < taken + IdleLimits::kContended) {
    EXPECT_EQ(thread.in_vain(), Action::kNap);
    EXPECT_EQ(thread.decision.duration, IdleLimits::kNap);
  }
  EXPECT_EQ(thread.in_vain(), Action::kYield) << "is it gone?";
  thread.yield(IdleLimits::kYieldAlone);
  EXPECT_EQ(thread.in_vain(), Action::kYield);
}

TEST(IdlePolicy, ThatAnotherThreadWantsTheProcessorDelaysNoWork) {
  Thread thread(IdlePolicy::takes_over(Awake::kShare, kTakeover));
  thread.in_vain();
  thread.yield(milliseconds(3));
  EXPECT_EQ(thread.alone(true), Action::kPollAgain);
  EXPECT_EQ(thread.in_vain(), Action::kNap);
  EXPECT_EQ(thread.in_vain(), Action::kPark) << "a nap is as long as it would stay awake";
}

TEST(IdlePolicy, AServingThreadKeepsItsProcessorThenOffersItThenSleeps) {
  constexpr Duration kIdle = milliseconds(1);
  Thread thread(IdlePolicy::serves(kIdle));
  EXPECT_EQ(thread.alone(true), Action::kPollAgain);
  EXPECT_EQ(thread.in_vain(), Action::kSpin);
  thread.now = thread.now + IdleLimits::kNextCommand;
  EXPECT_EQ(thread.in_vain(), Action::kYield);
  thread.now = thread.now + kIdle;
  EXPECT_EQ(thread.look({.pending = true}), Action::kYield) << "the end of that would not wake it";
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(thread.in_vain(), Action::kPark);
    EXPECT_EQ(thread.decision.duration, IdleLimits::kSleepWokenMax);
  }
  EXPECT_EQ(thread.alone(true), Action::kPollAgain);
  EXPECT_EQ(thread.in_vain(), Action::kSpin);
}

TEST(IdlePolicy, AServingThreadThatShallSleepAtOnceAwaitsTheNextCommandStill) {
  Thread thread(IdlePolicy::serves({}));
  thread.alone(true);
  EXPECT_EQ(thread.in_vain(), Action::kSpin);
  thread.now = thread.now + IdleLimits::kNextCommand;
  EXPECT_EQ(thread.in_vain(), Action::kPark);
}

TEST(IdlePolicy, OneThatWaitsForAnEventSpinsForATimeOnly) {
  Thread thread(IdlePolicy::spins_for(IdleLimits::kEventAnswer));
  EXPECT_EQ(thread.in_vain(), Action::kSpin);
  thread.now = thread.now + IdleLimits::kEventAnswer - nanoseconds(1);
  EXPECT_EQ(thread.in_vain(), Action::kSpin);
  thread.now = thread.now + nanoseconds(1);
  EXPECT_EQ(thread.in_vain(), Action::kPark);
}

TEST(IdlePolicy, ThreadsKeepProcessorsWhereTwoAreLeft) {
  EXPECT_FALSE(IdleLimits::may_keep_processors(1, 1, 1));
  EXPECT_FALSE(IdleLimits::may_keep_processors(1, 1, 2));
  EXPECT_TRUE(IdleLimits::may_keep_processors(1, 1, 3));
  EXPECT_FALSE(IdleLimits::may_keep_processors(4, 4, 4)) << "the application would run on none";
  EXPECT_FALSE(IdleLimits::may_keep_processors(4, 4, 5));
  EXPECT_TRUE(IdleLimits::may_keep_processors(4, 4, 6));
  EXPECT_FALSE(IdleLimits::may_keep_processors(2, 1, 64)) << "two on one CPU";
}

}  // namespace
}  // namespace uroce
