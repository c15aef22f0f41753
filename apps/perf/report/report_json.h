#pragma once

#include <string>

#include "apps/perf/measurement/measurement.h"

namespace uroce::perf {

/// One object, whose figures are flat: "write.4096.gigabits_per_second": 12.3 and so on, and what was
/// measured with ("device", "path_mtu" ...). "samples" has those that were taken in parts of the time, by the
/// same names; "histograms_us" what percentiles are of.
std::string json_of(const Report& report);

}  // namespace uroce::perf
