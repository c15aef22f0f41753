// The time is read from the CPU's cycle counter and set by the system's clock every CycleClock::kSyncEvery,
// because reading the counter takes less CPU time. Each thread extrapolates for itself, so no cache line is
// shared. Only where the counter is invariant and the kernel's own clock relies on it; poller.cycle_clock =
// false turns it off, which counts of instructions need.
#include "engine/platform/clock.h"

#include <cpuid.h>

#include <fstream>
#include <string>

namespace uroce::engine {

std::atomic<bool> detail::counts_cycles{false};
constinit thread_local CycleClock<MachineClocks> detail::cycle_clock
    __attribute__((tls_model("initial-exec")));

namespace {

bool counter_is_invariant() {
  constexpr unsigned kAdvancedPowerManagement = 0x80000007;
  constexpr unsigned kInvariantTsc = 1u << 8;  // of EDX
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(kAdvancedPowerManagement, &eax, &ebx, &ecx, &edx) != 0 && (edx & kInvariantTsc) != 0;
}

/// The kernel has compared the counters of all CPUs, or the hypervisor has.
bool kernel_relies_on_counter() {
  std::ifstream file("/sys/devices/system/clocksource/clocksource0/current_clocksource");
  std::string name;
  file >> name;
  return name == "tsc" || name == "kvm-clock" || name == "hyperv_clocksource_tsc_page";
}

}  // namespace

void count_cycles_if_steady() {
  if (counter_is_invariant() && kernel_relies_on_counter())
    detail::counts_cycles.store(true, std::memory_order_relaxed);
}

}  // namespace uroce::engine
