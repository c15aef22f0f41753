#include "engine/platform/thread.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <latch>
#include <memory>
#include <system_error>
#include <vector>

#include "base/threads/idle_limits.h"
#include "engine/platform/processors.h"

namespace uroce::engine {

namespace {

void settle(const std::string& name, std::span<const uint32_t> processors) {
  pthread_setname_np(pthread_self(), name.substr(0, 15).c_str());
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const uint32_t cpu : processors) CPU_SET(cpu, &set);
  // The kernel cuts the set to the cpuset; nothing left is refused, and the creator's affinity then stays.
  pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
}

}  // namespace

Result<Thread> Thread::start(std::string name, std::span<const uint32_t> processors,
                             std::function<void()> body) {
  std::vector<uint32_t> on(processors.begin(), processors.end());
  if (on.empty()) on = allowed_processors();
  // A thread inherits its creator's mask: blocked before it exists, no signal finds a gap.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    // Shared: the new thread may still be inside count_down() when the wait is over.
    const auto settled = std::make_shared<std::latch>(1);
    std::thread thread([name = std::move(name), on = std::move(on), body = std::move(body), settled] {
      settle(name, on);
      settled->count_down();
      body();
    });
    settled->wait();
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return Thread(std::move(thread));
  } catch (const std::system_error&) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return Error{EAGAIN, "cannot start a thread"};
  }
}

void prefer_short_slices() {
  // glibc has no wrapper, and <linux/sched/types.h> does not go together with <sched.h>.
  struct Attributes {
    uint32_t size = sizeof(Attributes);
    uint32_t policy = 0;
    uint64_t flags = 0;
    int32_t nice = 0;
    uint32_t priority = 0;
    uint64_t runtime_ns = 0;  // of an ordinary thread: the length of its slice
    uint64_t deadline_ns = 0;
    uint64_t period_ns = 0;
  };
  Attributes attributes;
  if (syscall(SYS_sched_getattr, 0, &attributes, sizeof(attributes), 0) != 0) return;
  if (attributes.policy != SCHED_OTHER && attributes.policy != SCHED_BATCH) return;
  attributes.runtime_ns = static_cast<uint64_t>(IdleLimits::kSliceAsked.ns);
  // A hint: where it is refused (a sandbox, an old kernel) latency is lost, nothing else.
  (void)syscall(SYS_sched_setattr, 0, &attributes, 0);
}

void Thread::join() {
  if (thread_.joinable()) thread_.join();
}

void Thread::abandon() {
  if (thread_.joinable()) thread_.detach();
}

}  // namespace uroce::engine
