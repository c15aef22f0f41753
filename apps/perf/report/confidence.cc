#include "apps/perf/report/confidence.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace uroce::perf {
namespace {

struct Mean {
  double value = 0;
  double variance = 0;  // of the mean
  double degrees = 0;   // of freedom
};

Mean mean_of(std::span<const double> samples) {
  const auto count = static_cast<double>(samples.size());
  double sum = 0;
  for (const double sample : samples) sum += sample;
  Mean mean{.value = sum / count, .degrees = count - 1};
  double squares = 0;
  for (const double sample : samples) squares += (sample - mean.value) * (sample - mean.value);
  mean.variance = squares / mean.degrees / count;
  return mean;
}

}  // namespace

double student_t(double degrees) {
  constexpr std::array kTable{12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
                              2.201,  2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086};
  constexpr double kNormal = 1.960;
  if (degrees < 1) return kTable.front();
  const auto whole = static_cast<size_t>(degrees);
  if (whole < kTable.size()) {
    const double part = degrees - static_cast<double>(whole);
    return kTable[whole - 1] + part * (kTable[whole] - kTable[whole - 1]);
  }
  // The next term of the expansion for many degrees of freedom: 2.086 at 20, as in the table.
  return kNormal + (kNormal * kNormal * kNormal + kNormal) / (4 * degrees) + 0.0075 * 20 / degrees;
}

Change change_of(std::span<const double> before, std::span<const double> after) {
  const Mean a = mean_of(before);
  const Mean b = mean_of(after);
  const double ratio = b.value / a.value;
  // By the delta method: both means vary.
  const double of_a = a.variance * ratio * ratio / (a.value * a.value);
  const double of_b = b.variance / (a.value * a.value);
  const double variance = of_a + of_b;
  const double degrees =
      variance == 0 ? 1e9 : variance * variance / (of_a * of_a / a.degrees + of_b * of_b / b.degrees);
  const double half = student_t(degrees) * std::sqrt(variance);
  return {.percent = (ratio - 1) * 100, .low = (ratio - 1 - half) * 100, .high = (ratio - 1 + half) * 100};
}

}  // namespace uroce::perf
