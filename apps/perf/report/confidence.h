#pragma once

#include <span>

namespace uroce::perf {

/// A change in percent, and the interval in which the real one lies with 95 % confidence.
struct Change {
  double percent = 0;
  double low = 0;
  double high = 0;

  [[nodiscard]] bool seen() const { return low > 0 || high < 0; }
};

/// From the mean of `before` to that of `after`, each of two samples at least whose mean is not 0: Welch's
/// interval, of the ratio of the means.
Change change_of(std::span<const double> before, std::span<const double> after);

/// The value that Student's t with so many degrees of freedom exceeds in either direction in 5 % of cases.
double student_t(double degrees);

}  // namespace uroce::perf
