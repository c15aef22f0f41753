#include "apps/perf/measurement/cpu_meter.h"

#include <time.h>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace uroce::perf {
namespace {

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

uint64_t ticks() {
#if defined(__x86_64__)
  return __rdtsc();
#else
  return 0;
#endif
}

}  // namespace

CpuMeter::CpuMeter() : cpu_s_(cpu_seconds()), since_(std::chrono::steady_clock::now()), ticks_(ticks()) {}

CpuUse CpuMeter::used() const {
  const double seconds = cpu_seconds() - cpu_s_;
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - since_;
  const double rate = elapsed.count() > 0 ? static_cast<double>(ticks() - ticks_) / elapsed.count() : 0;
  return {.seconds = seconds, .cycles = seconds * rate};
}

}  // namespace uroce::perf
