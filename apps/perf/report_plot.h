#pragma once

#include <string>

#include "apps/perf/measurement.h"

namespace uroce::perf {

/// Bandwidth and round trip over the message size, as an SVG document.
std::string plot_of(const Report& report);

}  // namespace uroce::perf
