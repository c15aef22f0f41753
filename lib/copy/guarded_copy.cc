#include "copy/guarded_copy.h"

#include <ucontext.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define UROCE_ADDRESS_SANITIZER 1
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define UROCE_ADDRESS_SANITIZER 1
#endif

extern "C" {
#ifdef UROCE_ADDRESS_SANITIZER
void __asan_handle_no_return();
#endif
// guarded_call.S. 0, or 1 when take_fault() ended the copy; *stack is the guard's and not 0 meanwhile.
int uroce_guarded_call(std::byte* to, const std::byte* from, size_t length, void* sum,
                       uroce::copy::SummingCopy copy, uintptr_t* stack);
extern const char uroce_guarded_call_lost[] __attribute__((visibility("hidden")));
}

namespace uroce::copy {
namespace {

/// The copy that a thread is in.
struct FaultGuard {
  uintptr_t stack = 0;  // 0: in none
  uintptr_t begin = 0;
  uintptr_t end = 0;
};

/// initial-exec: the handler must find it without any chance of an allocation, also when the library was
/// loaded by dlopen().
constinit thread_local FaultGuard fault_guard __attribute__((tls_model("initial-exec")));

/// Nothing but uroce_guarded_call() calls it, which is no C++ and leaves the sum in a register that such a
/// copy does not look at.
SummingCopy without_sum(CopyFunction copy) {
  return reinterpret_cast<SummingCopy>(reinterpret_cast<void*>(copy));
}

/// The frames of the copy were left without a return.
[[gnu::cold]] bool lost() {
#ifdef UROCE_ADDRESS_SANITIZER
  __asan_handle_no_return();
#endif
  return false;
}

}  // namespace

bool guarded_copy_to(CopyFunction copy, std::byte* to, const std::byte* from, size_t length) {
  FaultGuard& guard = fault_guard;
  guard.begin = reinterpret_cast<uintptr_t>(to);
  guard.end = guard.begin + length;
  return uroce_guarded_call(to, from, length, nullptr, without_sum(copy), &guard.stack) == 0 || lost();
}

bool guarded_copy_from(CopyFunction copy, std::byte* to, const std::byte* from, size_t length) {
  return guarded_copy_from(without_sum(copy), to, from, length, nullptr);
}

bool guarded_copy_from(SummingCopy copy, std::byte* to, const std::byte* from, size_t length, void* sum) {
  FaultGuard& guard = fault_guard;
  guard.begin = reinterpret_cast<uintptr_t>(from);
  guard.end = guard.begin + length;
  return uroce_guarded_call(to, from, length, sum, copy, &guard.stack) == 0 || lost();
}

bool take_fault(int signal, const siginfo_t& info, void* context) {
  const FaultGuard& guard = fault_guard;
  // Signals that somebody sent have no address, and news of broken memory elsewhere are no fault of ours.
  if (guard.stack == 0 || info.si_code <= 0) return false;
  if (signal == SIGBUS && info.si_code == BUS_MCEERR_AO) return false;
  const auto address = reinterpret_cast<uintptr_t>(info.si_addr);
  if (address < guard.begin || address >= guard.end) return false;
  // Not a jump: the kernel restores mask, stack and registers when the handler returns.
  greg_t* const registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  registers[REG_RIP] = static_cast<greg_t>(reinterpret_cast<uintptr_t>(uroce_guarded_call_lost));
  registers[REG_RSP] = static_cast<greg_t>(guard.stack);
  return true;
}

}  // namespace uroce::copy
