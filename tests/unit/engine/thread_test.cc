#include "engine/platform/thread.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include <array>
#include <string>

#include "engine/platform/processors.h"

namespace uroce::engine {
namespace {

struct Seen {
  std::string name;
  int processors = 0;
  bool all_blocked = true;
};

Seen look_around() {
  Seen seen;
  std::array<char, 32> name{};
  pthread_getname_np(pthread_self(), name.data(), name.size());
  seen.name = name.data();
  cpu_set_t set;
  CPU_ZERO(&set);
  sched_getaffinity(0, sizeof(set), &set);
  seen.processors = CPU_COUNT(&set);
  sigset_t mask;
  pthread_sigmask(SIG_SETMASK, nullptr, &mask);
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1, SIGCHLD, SIGALRM, SIGPIPE}) {
    seen.all_blocked &= sigismember(&mask, signal) == 1;
  }
  return seen;
}

TEST(Thread, HasANameCpusAndASignalMaskOfItsOwn) {
  // The creator is pinned to one CPU, as a framework's reactor would be, and takes signals.
  const uint32_t first = allowed_processors().front();
  Seen inner;
  sigset_t before;
  sigset_t after;
  pthread_sigmask(SIG_SETMASK, nullptr, &before);
  auto creator = Thread::start("pinned", std::span(&first, 1), [&] {
    auto thread = Thread::start("uroce-test-of-a-long-name", {}, [&] { inner = look_around(); });
    ASSERT_TRUE(thread);
  });
  ASSERT_TRUE(creator);
  creator->join();
  EXPECT_EQ(inner.name, "uroce-test-of-a");
  EXPECT_EQ(inner.processors, static_cast<int>(allowed_processors().size()));
  EXPECT_TRUE(inner.all_blocked);

  pthread_sigmask(SIG_SETMASK, nullptr, &after);
  EXPECT_EQ(sigismember(&after, SIGINT), sigismember(&before, SIGINT));
}

}  // namespace
}  // namespace uroce::engine
