#include "engine/platform/fault_handler.h"

#include <gtest/gtest.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <thread>

#include "copy/guarded_copy.h"
#include "tests/support/thread_sanitizer.h"
#include "tests/unit/copy/vanishing_memory.h"

// Each test is the body of a forked child with signal dispositions of its own; it returns 0, or the number of
// the check that failed, or dies of what it is expected to die of.

namespace uroce::engine {
namespace {

using uroce::testing::Vanishing;
using uroce::testing::VanishingMemory;

template <typename Body>
int status_of_child(Body body) {
  const pid_t child = fork();
  if (child == 0) {
    // Whatever a sanitizer or the test framework has installed is not what a program starts with.
    signal(SIGSEGV, SIG_DFL);
    signal(SIGBUS, SIG_DFL);
    _exit(body());
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return status;
}

template <typename Body>
void expect_zero(Body body) {
  const int status = status_of_child(body);
  ASSERT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0) << "check number";
}

template <typename Body>
void expect_killed(int signal, Body body) {
  const int status = status_of_child(body);
  ASSERT_TRUE(WIFSIGNALED(status)) << "exit status " << WEXITSTATUS(status);
  EXPECT_EQ(WTERMSIG(status), signal);
}

void install(int signal, void (*handler)(int, siginfo_t*, void*), int flags = 0) {
  struct sigaction action = {};
  action.sa_sigaction = handler;
  action.sa_flags = SA_SIGINFO | flags;
  sigaction(signal, &action, nullptr);
}

/// A page of the program's own that it may not touch, and one that is registered.
struct Program {
  const VanishingMemory own{1};
  const VanishingMemory registered{1};
  Program() {
    own.vanish(Vanishing::kNoAccess);
    registered.vanish(Vanishing::kNoAccess);
  }
  void fault() const { *reinterpret_cast<volatile char*>(own.data()) = 1; }
  /// True when it was noticed and survived.
  [[nodiscard]] bool guarded_fault() const {
    const std::byte bytes[8] = {};
    return !copy::guarded_store_ascending(registered.data(), bytes, sizeof(bytes));
  }
};

// What the handlers below leave behind.
const Program* program = nullptr;
volatile sig_atomic_t calls = 0;
sigjmp_buf back;

void repair(int, siginfo_t* info, void*) {
  if (info->si_addr != program->own.data()) _exit(99);
  calls = calls + 1;
  mprotect(program->own.data(), program->own.size(), PROT_READ | PROT_WRITE);
}

void jump_out(int) {
  calls = calls + 1;
  siglongjmp(back, 1);
}

TEST(FaultHandler, AHandlerFromBefore_ExpectItToGetItsOwnFaultsAndNoneOfOurs) {
  expect_zero([] {
    const Program here;
    program = &here;
    install(SIGSEGV, repair);
    install_fault_handler();
    if (!here.guarded_fault()) return 1;
    here.fault();
    if (calls != 1) return 2;
    if (!here.guarded_fault()) return 3;
    return calls == 1 ? 0 : 4;
  });
}

TEST(FaultHandler, AHandlerWithoutInformationThatJumpsOut_ExpectItToWorkEveryTime) {
  if (kThreadSanitizer)
    GTEST_SKIP() << "it calls handlers itself: ours takes a new fault for what a predecessor passes back";
  expect_zero([] {
    const Program here;
    signal(SIGSEGV, jump_out);
    install_fault_handler();
    while (calls < 3) {
      if (sigsetjmp(back, 1) == 0) {
        here.fault();
        return 1;
      }
      if (!here.guarded_fault()) return 2;
    }
    return 0;
  });
}

TEST(FaultHandler, AHandlerInstalledLater_ExpectUsInFrontAgainAfterTheNextLook) {
  expect_zero([] {
    const Program here;
    program = &here;
    install_fault_handler();
    install(SIGSEGV, repair);
    install_fault_handler();
    install_fault_handler();
    if (!here.guarded_fault()) return 1;
    here.fault();
    return calls == 1 ? 0 : 2;
  });
}

struct sigaction saved;
volatile sig_atomic_t passed = 0;

/// A well-mannered handler: what it does not know goes to the handler that was there before it.
void pass_back(int number, siginfo_t* info, void* context) {
  passed = passed + 1;
  if (passed > 10) _exit(98);
  saved.sa_sigaction(number, info, context);
}

TEST(FaultHandler, ALaterHandlerThatPassesFaultsBackToUs_ExpectThemToReachTheFirstOne) {
  expect_zero([] {
    const Program here;
    program = &here;
    install(SIGSEGV, repair);
    install_fault_handler();
    sigaction(SIGSEGV, nullptr, &saved);
    install(SIGSEGV, pass_back);
    install_fault_handler();
    if (!here.guarded_fault() || passed != 0) return 1;
    for (int i = 1; i < 4; ++i) {
      here.fault();
      if (calls != i || passed != i) return 1 + i;
      mprotect(here.own.data(), here.own.size(), PROT_NONE);
    }
    return 0;
  });
}

TEST(FaultHandler, ALaterHandlerThatPassesFaultsBackToUs_ExpectTheDefaultActionBehindIt) {
  expect_killed(SIGSEGV, [] {
    const Program here;
    install_fault_handler();
    sigaction(SIGSEGV, nullptr, &saved);
    install(SIGSEGV, pass_back);
    install_fault_handler();
    here.fault();
    return 1;
  });
}

TEST(FaultHandler, NoHandlerAtAll_ExpectForeignFaultsToKill) {
  expect_killed(SIGSEGV, [] {
    const Program here;
    install_fault_handler();
    if (!here.guarded_fault()) return 1;
    here.fault();
    return 2;
  });
  expect_killed(SIGBUS, [] {
    const VanishingMemory file(1);
    install_fault_handler();
    file.vanish(Vanishing::kTruncated);
    *reinterpret_cast<volatile char*>(file.data()) = 1;
    return 1;
  });
}

TEST(FaultHandler, SignalsThatAreSent_ExpectTheProgramsOwnAction) {
  expect_killed(SIGSEGV, [] {
    install_fault_handler();
    kill(getpid(), SIGSEGV);
    return 1;
  });
  expect_zero([] {
    signal(SIGBUS, SIG_IGN);
    install_fault_handler();
    return raise(SIGBUS) == 0 && kill(getpid(), SIGBUS) == 0 ? 0 : 1;
  });
  // Also while the thread is inside a copy that would be ours: it has no address.
  expect_killed(SIGSEGV, [] {
    install_fault_handler();
    std::byte bytes[8] = {};
    const copy::CopyFunction send = [](std::byte*, const std::byte*, size_t) { raise(SIGSEGV); };
    copy::guarded_copy_to(send, bytes, bytes, sizeof(bytes));
    return 1;
  });
}

TEST(FaultHandler, FaultsThatAreIgnored_ExpectThemToKillAllTheSame) {
  expect_killed(SIGSEGV, [] {
    const Program here;
    signal(SIGSEGV, SIG_IGN);
    install_fault_handler();
    here.fault();
    return 1;
  });
}

TEST(FaultHandler, AHandlerForOneTime_ExpectTheDefaultActionAfterwards) {
  expect_killed(SIGSEGV, [] {
    const Program here;
    program = &here;
    install(SIGSEGV, repair, static_cast<int>(SA_RESETHAND));
    install_fault_handler();
    here.fault();
    if (calls != 1) return 1;
    mprotect(here.own.data(), here.own.size(), PROT_NONE);
    here.fault();
    return 2;
  });
}

std::byte* alternate_begin = nullptr;
constexpr size_t kAlternateBytes = 64 << 10;

void look_at_stack(int, siginfo_t*, void*) {
  sigset_t mask;
  pthread_sigmask(SIG_SETMASK, nullptr, &mask);
  auto* const here = static_cast<std::byte*>(__builtin_frame_address(0));
  if (here < alternate_begin || here >= alternate_begin + kAlternateBytes) _exit(97);
  if (sigismember(&mask, SIGUSR1) != 1 || sigismember(&mask, SIGSEGV) != 1) _exit(96);
  _exit(0);
}

TEST(FaultHandler, AHandlerWithAStackAndAMaskOfItsOwn_ExpectItToHaveBoth) {
  expect_zero([] {
    const Program here;
    static std::byte stack[kAlternateBytes];
    alternate_begin = stack;
    stack_t alternate = {};
    alternate.ss_sp = stack;
    alternate.ss_size = kAlternateBytes;
    sigaltstack(&alternate, nullptr);
    struct sigaction action = {};
    action.sa_sigaction = look_at_stack;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigaddset(&action.sa_mask, SIGUSR1);
    sigaction(SIGSEGV, &action, nullptr);
    install_fault_handler();
    if (!here.guarded_fault()) return 1;
    here.fault();
    return 2;
  });
}

TEST(FaultHandler, AThreadThatBlocksAllSignals_ExpectItToSurviveOnceItTurnsPollers) {
  expect_zero([] {
    const Program here;
    install_fault_handler();
    bool survived = false;
    std::thread([&] {
      sigset_t all;
      sigfillset(&all);
      pthread_sigmask(SIG_SETMASK, &all, nullptr);
      unblock_fault_signals();
      survived = here.guarded_fault();
    }).join();
    return survived ? 0 : 1;
  });
}

TEST(FaultHandler, AForkedChild_ExpectTheSameThere) {
  expect_zero([] {
    const Program here;
    program = &here;
    install(SIGSEGV, repair);
    install_fault_handler();
    const pid_t child = fork();
    if (child == 0) {
      here.fault();
      _exit(calls == 1 && here.guarded_fault() ? 0 : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return status == 0 ? 0 : 1;
  });
}

}  // namespace
}  // namespace uroce::engine
