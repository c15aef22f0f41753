// Signals are the program's: they are delivered to its threads, and their dispositions are its own.
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <initializer_list>
#include <thread>

#include "guest.h"

namespace uroce::embedding {
namespace {

// Everything a program may want to handle. Those that a thread raises by its own fault are another matter.
constexpr std::array kProgramSignals = {SIGHUP,    SIGINT,  SIGQUIT, SIGPIPE, SIGALRM, SIGTERM,
                                        SIGUSR1,   SIGUSR2, SIGCHLD, SIGCONT, SIGTSTP, SIGURG,
                                        SIGVTALRM, SIGPROF, SIGIO,   SIGWINCH};
constexpr std::array kOwnFaults = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT};

volatile sig_atomic_t handled_on = 0;

void note_thread(int) { handled_on = static_cast<sig_atomic_t>(gettid()); }

void handle(int signal, int flags = 0) {
  struct sigaction action {};
  action.sa_handler = note_thread;
  action.sa_flags = flags;
  REQUIRE(sigaction(signal, &action, nullptr) == 0);
}

sigset_t set_of(std::initializer_list<int> signals) {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : signals) sigaddset(&set, signal);
  return set;
}

/// While the program's only thread blocks a signal no other thread takes it.
int handlers_run_on_the_programs_threads() {
  Connection connection;
  connection.exchange();
  for (const int signal : kProgramSignals) {
    handle(signal);
    const sigset_t one = set_of({signal});
    handled_on = 0;
    pthread_sigmask(SIG_BLOCK, &one, nullptr);
    kill(getpid(), signal);
    connection.exchange();
    const timespec moment{.tv_sec = 0, .tv_nsec = 20'000'000};
    nanosleep(&moment, nullptr);
    REQUIRE(handled_on == 0);
    sigset_t pending;
    sigpending(&pending);
    REQUIRE(sigismember(&pending, signal) == 1);
    pthread_sigmask(SIG_UNBLOCK, &one, nullptr);
    REQUIRE(handled_on == gettid());
  }
  return 0;
}

int our_threads_block_all() {
  Connection connection;
  connection.exchange();
  const auto threads = other_threads();
  REQUIRE(!threads.empty());
  for (const ThreadSeen& thread : threads) {
    for (int signal = 1; signal <= SIGRTMAX; ++signal) {
      bool exempt = signal == SIGKILL || signal == SIGSTOP || (signal > SIGSYS && signal < SIGRTMIN);
      for (const int fault : kOwnFaults) exempt |= signal == fault;
      const bool blocked = (thread.blocked_signals >> (signal - 1) & 1) != 0;
      if (!exempt && !blocked)
        std::fprintf(stderr, "%s does not block signal %d\n", thread.name.c_str(), signal);
      REQUIRE(exempt || blocked);
    }
  }
  return 0;
}

int sigwait_works() {
  const sigset_t term = set_of({SIGTERM});
  pthread_sigmask(SIG_BLOCK, &term, nullptr);  // before every other thread, as such programs do
  Connection connection;
  int got = 0;
  std::thread waiter([&] { sigwait(&term, &got); });
  connection.exchange();
  kill(getpid(), SIGTERM);
  waiter.join();
  REQUIRE(got == SIGTERM);
  sigset_t mask;
  pthread_sigmask(SIG_SETMASK, nullptr, &mask);
  REQUIRE(sigismember(&mask, SIGTERM) == 1);
  REQUIRE(sigismember(&mask, SIGINT) == 0);
  return 0;
}

int an_alarm_interrupts_a_wait_for_events() {
  Connection connection;
  handle(SIGALRM);  // without SA_RESTART
  timer_t timer{};
  sigevent event{};
  event.sigev_notify = SIGEV_SIGNAL;
  event.sigev_signo = SIGALRM;
  REQUIRE(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
  // Again and again: the first may come before the wait.
  const itimerspec when{.it_interval = {.tv_sec = 0, .tv_nsec = 50'000'000},
                        .it_value = {.tv_sec = 0, .tv_nsec = 50'000'000}};
  timer_settime(timer, 0, &when, nullptr);
  ibv_cq* cq = nullptr;
  void* cq_context = nullptr;
  errno = 0;
  REQUIRE(ibv_get_cq_event(connection.channel(0), &cq, &cq_context) == -1);
  REQUIRE(errno == EINTR);
  REQUIRE(handled_on == gettid());
  timer_delete(timer);
  connection.exchange();
  return 0;
}

int a_childs_end_is_told_to_the_program() {
  Connection connection;
  handle(SIGCHLD, SA_RESTART);
  const pid_t child = fork();
  if (child == 0) _exit(7);
  while (handled_on == 0) connection.exchange();
  REQUIRE(handled_on == gettid());
  REQUIRE(status_of(child) == 7);
  return 0;
}

int dispositions_stay() {
  std::array<struct sigaction, 65> before{};
  handle(SIGUSR1);
  handle(SIGPIPE, SA_RESTART);
  signal(SIGTERM, SIG_IGN);
  for (int number = 1; number <= 64; ++number)
    sigaction(number, nullptr, &before[static_cast<size_t>(number)]);
  stack_t stack_before{};
  sigaltstack(nullptr, &stack_before);
  Connection connection;
  connection.exchange();
  for (int number = 1; number <= 64; ++number) {
    // Those of memory faults are chained: the program's handler still gets what is not ours.
    if (number == SIGSEGV || number == SIGBUS) continue;
    struct sigaction now {};
    sigaction(number, nullptr, &now);
    const auto& then = before[static_cast<size_t>(number)];
    REQUIRE(now.sa_handler == then.sa_handler && now.sa_flags == then.sa_flags);
  }
  stack_t stack_now{};
  sigaltstack(nullptr, &stack_now);
  REQUIRE(stack_now.ss_sp == stack_before.ss_sp && stack_now.ss_flags == stack_before.ss_flags);
  return 0;
}

}  // namespace

std::vector<Scenario> signal_scenarios() {
  return {{"signals-handlers-run-on-the-programs-threads", handlers_run_on_the_programs_threads},
          {"signals-our-threads-block-all", our_threads_block_all},
          {"signals-sigwait-works", sigwait_works},
          {"signals-an-alarm-interrupts-a-wait-for-events", an_alarm_interrupts_a_wait_for_events},
          {"signals-a-childs-end-is-told-to-the-program", a_childs_end_is_told_to_the_program},
          {"signals-dispositions-stay", dispositions_stay}};
}

}  // namespace uroce::embedding
