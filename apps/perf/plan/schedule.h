#pragma once

#include <cmath>
#include <cstdint>
#include <random>

#include "apps/perf/plan/load.h"

namespace uroce::perf {

/// When messages of a rate are to be sent, in nanoseconds from the beginning: known beforehand, whatever
/// becomes of the messages before. So a queue that is full shows as latency, and not as a lower rate.
class Schedule {
 public:
  explicit Schedule(const LoadRun& run)
      : period_(1e9 / run.rate), first_(run.offset * period_), spacing_(run.spacing), random_(run.seed) {
    next_ = first_;
    if (spacing_ == Spacing::kPoisson) next_ = gap();
  }

  [[nodiscard]] int64_t next() const { return static_cast<int64_t>(next_); }

  void advance() {
    ++number_;
    // Multiplied, not added: no error of rounding grows.
    next_ = spacing_ == Spacing::kEven ? first_ + static_cast<double>(number_) * period_ : next_ + gap();
  }

 private:
  double gap() {
    constexpr double kStep = 0x1p-53;
    return -std::log(1 - static_cast<double>(random_() >> 11) * kStep) * period_;
  }

  double period_;
  double first_;
  Spacing spacing_;
  std::mt19937_64 random_;
  uint64_t number_ = 0;
  double next_ = 0;
};

}  // namespace uroce::perf
