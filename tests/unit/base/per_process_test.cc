#include "base/process/per_process.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <mutex>
#include <set>
#include <thread>
#include <vector>

namespace uroce {
namespace {

struct Counted {
  std::mutex mutex;
  int value = 0;
};

TEST(PerProcess, ThreadsShareOne) {
  static PerProcess<Counted> counted;
  std::mutex mutex;
  std::set<Counted*> seen;
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&] {
      Counted* const mine = &counted.get();
      const std::lock_guard guard(mutex);
      seen.insert(mine);
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(seen.size(), 1u);
}

TEST(PerProcess, AForkedChildHasItsOwn_AlsoWhenTheParentsIsLocked) {
  static PerProcess<Counted> counted;
  Counted& ours = counted.get();
  ours.value = 7;
  const std::lock_guard guard(ours.mutex);
  const uint32_t forks = fork_count();
  const pid_t child = fork();
  if (child == 0) {
    if (fork_count() != forks + 1) _exit(1);
    Counted& its = counted.get();
    const std::lock_guard own(its.mutex);
    if (&its == &ours || its.value != 0) _exit(2);
    _exit(&counted.get() == &its ? 0 : 3);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(fork_count(), forks);
  EXPECT_EQ(&counted.get(), &ours);
}

}  // namespace
}  // namespace uroce
