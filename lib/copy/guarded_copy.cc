// Decision: copies run under a guard that the handler of SIGSEGV and SIGBUS can end. Nothing is pinned, and
// the owner may unmap what is registered. Cost: 30 instructions for each copy (perf/micro/copy_bench), and
// threads that turn pollers have both signals unblocked.
//
// Decision: a payload is copied into its frame, never referred to by it. A driver that reads unmapped memory
// would kill the process, and a far end without turns would hold up completions and deregistration. Cost:
// bandwidth of large messages on a wire inside the process.
#include "copy/guarded_copy.h"

#include <ucontext.h>

extern "C" {
// guarded_call.S. 0, or 1 when take_fault() ended the copy; *stack is the guard's and not 0 meanwhile.
int uroce_guarded_call(std::byte* to, const std::byte* from, size_t length, void* sum,
                       uroce::copy::SummingCopy copy, uintptr_t* stack);
extern const char uroce_guarded_call_lost[] __attribute__((visibility("hidden")));
// short_copies.S
extern const char uroce_read_short_end[] __attribute__((visibility("hidden")));
extern const char uroce_store_ascending_end[] __attribute__((visibility("hidden")));
extern const char uroce_short_copy_lost[] __attribute__((visibility("hidden")));
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
  tell_of_left_frames();
  return false;
}

uintptr_t address_of(const char* code) { return reinterpret_cast<uintptr_t>(code); }

/// True when a thread with these registers is in a copy of short_copies.S, and the address is of its guarded
/// end.
bool in_short_copy(const greg_t* registers, uintptr_t address) {
  struct Row {
    bool (*copy)(std::byte*, const std::byte*, size_t);
    const char* end;
    int guarded;  // the register that has its first byte
  };
  static constexpr Row kRows[] = {{uroce_read_short, uroce_read_short_end, REG_RSI},
                                  {uroce_store_ascending, uroce_store_ascending_end, REG_RDI}};
  const auto at = static_cast<uintptr_t>(registers[REG_RIP]);
  for (const Row& row : kRows) {
    if (at < reinterpret_cast<uintptr_t>(row.copy) || at >= address_of(row.end)) continue;
    const auto begin = static_cast<uintptr_t>(registers[row.guarded]);
    return address - begin < static_cast<uintptr_t>(registers[REG_RDX]);
  }
  return false;
}

/// True when the thread is in a guarded call, and the address is of its guarded end.
bool in_guarded_call(const FaultGuard& guard, uintptr_t address) {
  return guard.stack != 0 && address >= guard.begin && address < guard.end;
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
  // Signals that a process sent have no address, and news of broken memory elsewhere are no fault of ours.
  if (info.si_code <= 0) return false;
  if (signal == SIGBUS && info.si_code == BUS_MCEERR_AO) return false;
  const auto address = reinterpret_cast<uintptr_t>(info.si_addr);
  // Not a jump: the kernel restores mask, stack and registers when the handler returns.
  greg_t* const registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  if (in_short_copy(registers, address)) {
    registers[REG_RIP] = static_cast<greg_t>(address_of(uroce_short_copy_lost));
    return true;
  }
  const FaultGuard& guard = fault_guard;
  if (!in_guarded_call(guard, address)) return false;
  registers[REG_RIP] = static_cast<greg_t>(address_of(uroce_guarded_call_lost));
  registers[REG_RSP] = static_cast<greg_t>(guard.stack);
  return true;
}

}  // namespace uroce::copy
