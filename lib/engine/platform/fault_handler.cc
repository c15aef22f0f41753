#include "engine/platform/fault_handler.h"

#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <cstddef>
#include <cstring>
#include <mutex>

#include "base/process/per_process.h"
#include "copy/guarded_copy.h"

// The handler as the kernel calls it. A program's handler that was installed behind our back, and in front of
// which we put ourselves later, has our handler for its predecessor and may call it: it must then go on with
// *its* predecessor, or the two would call each other for ever. The two callers differ by where the stack is:
// the kernel puts the context directly above the return address. Hence this entry, which passes the stack on.
extern "C" {
[[gnu::visibility("hidden"), gnu::used]] void uroce_on_fault(int signal, siginfo_t* info, void* context,
                                                             const std::byte* stack);
[[gnu::naked]] static void uroce_fault_entry(int, siginfo_t*, void*) {
  asm("movq %rsp, %rcx\n\tjmp uroce_on_fault");
}
}

namespace uroce::engine {

constinit thread_local bool detail::fault_signals_unblocked __attribute__((tls_model("initial-exec"))) =
    false;

namespace {

constexpr int kSignals[] = {SIGSEGV, SIGBUS};

/// What a signal did before us. Never freed: a handler may be reading it.
struct Predecessor {
  struct sigaction action;
  Predecessor* older;              // what was there before that; nullptr: the default action
  std::atomic<bool> spent{false};  // SA_RESETHAND
};

// Written by install_fault_handler(), read by handlers: release and acquire.
std::atomic<Predecessor*> newest[std::size(kSignals)];

/// The predecessor that the thread has just called.
constinit thread_local Predecessor* passing_to __attribute__((tls_model("initial-exec"))) = nullptr;

std::atomic<Predecessor*>& newest_of(int signal) { return newest[signal == SIGBUS ? 1 : 0]; }

bool is_ours(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) != 0 && action.sa_sigaction == uroce_fault_entry;
}

/// Compares only what the kernel fills in of a mask: the C library copies more.
constexpr size_t kMaskBytes = 64 / 8;

bool same(const struct sigaction& one, const struct sigaction& other) {
  return one.sa_sigaction == other.sa_sigaction && one.sa_flags == other.sa_flags &&
         std::memcmp(&one.sa_mask, &other.sa_mask, kMaskBytes) == 0;
}

/// Does as the kernel would: the instruction is executed again and kills, or is reported, with everything as
/// it was. A signal that was sent does not come again by itself.
void take_default(int signal, const siginfo_t& info) {
  struct sigaction action = {};
  action.sa_handler = SIG_DFL;
  sigaction(signal, &action, nullptr);
  if (info.si_code <= 0) raise(signal);  // blocked until the handler returns
}

/// The masks that the predecessor asked for; returning from the signal restores what was before.
void wear_mask(int signal, const struct sigaction& action) {
  pthread_sigmask(SIG_BLOCK, &action.sa_mask, nullptr);
  if ((action.sa_flags & SA_NODEFER) == 0) return;
  sigset_t own;
  sigemptyset(&own);
  sigaddset(&own, signal);
  pthread_sigmask(SIG_UNBLOCK, &own, nullptr);
}

void pass_on(Predecessor* to, int signal, siginfo_t& info, void* context) {
  if (to == nullptr) return take_default(signal, info);
  const struct sigaction& action = to->action;
  const bool once = (static_cast<unsigned int>(action.sa_flags) & SA_RESETHAND) != 0;
  // Relaxed: a flag of its own. Of two threads that fault at once, one gets the handler.
  const bool spent = once && to->spent.exchange(true, std::memory_order_relaxed);
  if (action.sa_handler == SIG_DFL || spent) return take_default(signal, info);
  if (action.sa_handler == SIG_IGN) {
    if (info.si_code > 0) take_default(signal, info);  // a fault cannot be ignored
    return;
  }
  passing_to = to;
  wear_mask(signal, action);
  if ((action.sa_flags & SA_SIGINFO) != 0) {
    action.sa_sigaction(signal, &info, context);
  } else {
    action.sa_handler(signal);
  }
}

void remember(int signal, const struct sigaction& action) {
  std::atomic<Predecessor*>& head = newest_of(signal);
  Predecessor* known = head.load(std::memory_order_relaxed);  // only written under the lock
  while (known != nullptr && !same(known->action, action)) known = known->older;
  if (known == nullptr)
    known = new Predecessor{.action = action, .older = head.load(std::memory_order_relaxed)};
  known->spent.store(false, std::memory_order_relaxed);
  head.store(known, std::memory_order_release);  // pairs with uroce_on_fault()
}

void put_in_front(int signal) {
  struct sigaction current = {};
  if (sigaction(signal, nullptr, &current) != 0 || is_ours(current)) return;
  // Before our handler can be called. A handler that is installed in between is noticed.
  remember(signal, current);
  struct sigaction ours = {};
  ours.sa_sigaction = uroce_fault_entry;
  // On the alternate stack if the thread has one: a predecessor may be there for overflows of the other.
  ours.sa_flags = SA_SIGINFO | SA_ONSTACK | (current.sa_flags & SA_RESTART);
  struct sigaction replaced = {};
  sigaction(signal, &ours, &replaced);
  if (!is_ours(replaced) && !same(replaced, current)) remember(signal, replaced);
}

}  // namespace

void install_fault_handler() {
  static PerProcess<std::mutex> mutex;
  const std::lock_guard guard(mutex.get());
  for (const int signal : kSignals) put_in_front(signal);
}

void detail::unblock_fault_signals_now() {
  sigset_t faults;
  sigemptyset(&faults);
  for (const int signal : kSignals) sigaddset(&faults, signal);
  pthread_sigmask(SIG_UNBLOCK, &faults, nullptr);
  fault_signals_unblocked = true;
}

}  // namespace uroce::engine

void uroce_on_fault(int signal, siginfo_t* info, void* context, const std::byte* stack) {
  using namespace uroce::engine;
  if (uroce::copy::take_fault(signal, *info, context)) return;
  const bool by_kernel = stack + sizeof(void*) == context;
  // A new fault, also when passing_to is still set: that handler left by a jump, or has faulted itself.
  Predecessor* const before = passing_to;
  Predecessor* const to = before != nullptr && !by_kernel
                              ? before->older
                              : newest_of(signal).load(std::memory_order_acquire);  // pairs with remember()
  pass_on(to, signal, *info, context);
  passing_to = before;
}
