#include "engine/crowd.h"

#include <sched.h>

#include "engine/clock.h"
#include "engine/processors.h"

namespace uroce::engine {

constinit thread_local VainPolls vain_polls __attribute__((tls_model("initial-exec")));

namespace {

constinit VainThreads vain_threads;

struct ThisMachine {
  static Instant now() { return clock_now(); }
  static uint32_t processors() { return processors_of_this_thread(); }
  static void yield() { sched_yield(); }
};

}  // namespace

void wait_in_crowd() { vain_polls.more_of_them(vain_threads, ThisMachine{}); }

}  // namespace uroce::engine
