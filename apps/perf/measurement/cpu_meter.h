#pragma once

#include <chrono>
#include <cstdint>

namespace uroce::perf {

/// What all threads of this process took.
struct CpuUse {
  double seconds = 0;
  double cycles = 0;  // of the time stamp counter; 0 where there is none
};

/// CPU time of this process from its making on.
class CpuMeter {
 public:
  CpuMeter();
  [[nodiscard]] CpuUse used() const;

 private:
  double cpu_s_;
  std::chrono::steady_clock::time_point since_;
  uint64_t ticks_;
};

}  // namespace uroce::perf
