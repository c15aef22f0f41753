// A thread that polls in vain keeps its CPU, unless more such threads than CPUs do so.
#include "engine/scheduling/oversubscription.h"

#include <gtest/gtest.h>

#include <array>
#include <span>

namespace uroce::engine {
namespace {

/// The machine as a thread sees it.
struct Machine {
  struct State {
    Instant now{seconds(100).ns};
    uint32_t processors = 2;
    uint32_t yields = 0;
    uint32_t yields_seen = 0;  // by another thread that looked meanwhile
    const IdlePollingThreads* threads = nullptr;
    Duration yield_takes = nanoseconds(300);
  };
  State* state;

  [[nodiscard]] Instant now() const { return state->now; }
  [[nodiscard]] uint32_t processors() const { return state->processors; }
  void yield() const {
    ++state->yields;
    if (state->threads != nullptr && state->threads->any_yields()) ++state->yields_seen;
    state->now = state->now + state->yield_takes;
  }
};

class Crowd : public testing::Test {
 protected:
  void poll_in_vain(PollBackoff& thread, uint32_t times) {
    for (; times > 0; --times) {
      if (thread.nothing()) thread.back_off(threads, Machine{&state});
    }
  }
  /// Each of the first `count`, one after the other, for so long that it is looked upon as one.
  void gather(size_t count) {
    for (PollBackoff& thread : std::span(all).first(count)) poll_in_vain(thread, IdleLimits::kEmptyPolls);
  }

  Machine::State state;
  IdlePollingThreads threads;
  std::array<PollBackoff, 8> all;
};

TEST_F(Crowd, WhoIsAloneNeverYields) {
  poll_in_vain(all[0], 100 * IdleLimits::kEmptyPolls);
  EXPECT_EQ(state.yields, 0u);
}

TEST_F(Crowd, AsManyThreadsAsProcessorsNeverYield) {
  for (int i = 0; i < 100; ++i) {
    gather(2);
    state.now = state.now + milliseconds(10);
  }
  EXPECT_EQ(state.yields, 0u);
}

TEST_F(Crowd, OneMoreThanProcessorsYields) {
  gather(3);
  EXPECT_EQ(state.yields, 1u);
  poll_in_vain(all[0], IdleLimits::kEmptyPolls);
  EXPECT_EQ(state.yields, 2u);
}

TEST_F(Crowd, OthersSeeThatAThreadYieldsAsLongAsItDoes) {
  state.threads = &threads;
  EXPECT_FALSE(threads.any_yields());
  gather(3);
  poll_in_vain(all[0], IdleLimits::kEmptyPolls);
  EXPECT_EQ(state.yields, 2u);
  EXPECT_EQ(state.yields_seen, 2u);
  EXPECT_FALSE(threads.any_yields());
}

TEST_F(Crowd, ProgramsBesideItCountAsThreads) {
  threads.set_programs_beside(1);
  gather(1);
  EXPECT_EQ(state.yields, 0u);
  threads.set_programs_beside(2);
  gather(1);
  EXPECT_EQ(state.yields, 1u);
}

TEST_F(Crowd, TheProcessorsAreThoseOfTheThread) {
  state.processors = 1;
  gather(2);
  EXPECT_EQ(state.yields, 1u);
}

TEST_F(Crowd, WhoFindsSomethingNowAndThenDoesNotYield) {
  gather(8);
  const uint32_t before = state.yields;
  for (int i = 0; i < 100; ++i) {
    poll_in_vain(all[0], IdleLimits::kEmptyPollsContended - 1);
    all[0].found();
  }
  EXPECT_EQ(state.yields, before);
}

TEST_F(Crowd, WhoseCpuIsTakenYieldsEarlier) {
  gather(3);
  state.yield_takes = milliseconds(3);
  poll_in_vain(all[0], IdleLimits::kEmptyPolls);
  const uint32_t before = state.yields;
  poll_in_vain(all[0], 4 * IdleLimits::kEmptyPollsContended);
  EXPECT_EQ(state.yields, before + 4);
  // And less and less often when no thread takes the CPU any more.
  state.yield_takes = nanoseconds(300);
  poll_in_vain(all[0], 8 * IdleLimits::kEmptyPolls);
  EXPECT_LE(state.yields, before + 4 + 12);
}

TEST_F(Crowd, ThoseWhoStoppedAreForgotten) {
  gather(8);
  const uint32_t before = state.yields;
  EXPECT_GT(before, 0u);
  state.now = state.now + IdleLimits::kEpoch * 2;
  poll_in_vain(all[0], 100 * IdleLimits::kEmptyPolls);
  EXPECT_EQ(state.yields, before);
}

TEST_F(Crowd, WhoDidNotRunForAWhileStillCounts) {
  gather(8);
  state.now = state.now + IdleLimits::kEpoch;
  const uint32_t before = state.yields;
  poll_in_vain(all[0], IdleLimits::kEmptyPolls);
  EXPECT_EQ(state.yields, before + 1);
}

}  // namespace
}  // namespace uroce::engine
