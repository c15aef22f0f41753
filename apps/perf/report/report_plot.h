#pragma once

#include <string>
#include <vector>

#include "apps/perf/measurement/measurement.h"
#include "apps/perf/report/chart.h"

namespace uroce::perf {

/// Bandwidth, round trip and CPU time over the message size, as far as they were measured.
std::vector<Chart> charts_of(const Report& report);

/// The charts over the message size, as an SVG document.
std::string plot_of(const Report& report);

}  // namespace uroce::perf
