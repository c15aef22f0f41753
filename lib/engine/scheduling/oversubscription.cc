// A thread that finds a poller busy returns at once, and would spin while the thread in the turn does not
// run. So it yields after IdleLimits::kEmptyPolls empty polls while more threads find nothing than it may use
// CPUs; programs that share the device count as one thread each. One thread, or as many as CPUs, never yield,
// because a yield may lose a whole time slice. Not covered: processes that share no device (perf/run --only
// polling_threads).
#include "engine/scheduling/oversubscription.h"

#include <sched.h>

#include "engine/platform/clock.h"
#include "engine/platform/processors.h"

namespace uroce::engine {

constinit thread_local PollBackoff poll_backoff __attribute__((tls_model("initial-exec")));

namespace {

constinit IdlePollingThreads vain_threads;

struct ThisMachine {
  static Instant now() { return clock_now(); }
  static uint32_t processors() { return processors_of_this_thread(); }
  static void yield() { sched_yield(); }
};

}  // namespace

void set_programs_beside(uint32_t count) { vain_threads.set_programs_beside(count); }

void forget_polling_threads() { vain_threads.forget(); }

bool poll_awaits_processor() { return vain_threads.any_yields(); }

void back_off() { poll_backoff.back_off(vain_threads, ThisMachine{}); }

}  // namespace uroce::engine
