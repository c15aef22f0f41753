#include "apps/serve/question.h"

#include <linux/futex.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>

namespace uroce::serve {

void pause_while(std::atomic<uint32_t>& word, uint32_t value) {
  const timespec pause{.tv_sec = 0, .tv_nsec = 2'000'000};
  syscall(SYS_futex, &word, FUTEX_WAIT, value, &pause, nullptr, 0);
}

int64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

bool lock_to_ask(host::Question& question, int64_t patience_ns, const std::function<bool()>& try_lock) {
  for (const int64_t until = now_ns() + patience_ns; now_ns() < until;) {
    if (try_lock()) return true;
    pause_while(question.answered, question.answered.load(std::memory_order_relaxed));  // a reason to try
  }
  return false;
}

uint32_t post(host::Question& question) {
  // Release: with what is asked for. seq_cst with the bell: the process looks at it after it has set the
  // bell.
  const uint32_t asked = question.asked.fetch_add(1, std::memory_order_seq_cst) + 1;
  if (question.bell.exchange(0, std::memory_order_seq_cst) != 0)
    syscall(SYS_futex, &question.bell, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
  return asked;
}

Outcome ask(host::Question& question, int pid, int64_t patience_ns) {
  const uint32_t asked = post(question);
  for (const int64_t until = now_ns() + patience_ns; now_ns() < until;) {
    const uint32_t answered = question.answered.load(std::memory_order_acquire);  // pairs with answer()
    if (answered == asked) return Outcome::kAnswered;
    if (!question.is_open()) return Outcome::kClosed;
    pause_while(question.answered, answered);
    if (kill(pid, 0) != 0 && errno == ESRCH) return Outcome::kEnded;
  }
  return Outcome::kLate;
}

}  // namespace uroce::serve
