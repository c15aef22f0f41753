#include "engine/thread.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include <cerrno>
#include <latch>
#include <memory>
#include <system_error>
#include <vector>

#include "engine/processors.h"

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

void Thread::join() {
  if (thread_.joinable()) thread_.join();
}

void Thread::abandon() {
  if (thread_.joinable()) thread_.detach();
}

}  // namespace uroce::engine
