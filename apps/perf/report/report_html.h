#pragma once

#include <string>

#include "apps/perf/measurement/measurement.h"

namespace uroce::perf {

/// The report as one page that needs nothing else: the table, plots, histograms and the machine, light or
/// dark as the reader prefers.
std::string html_of(const Report& report);

}  // namespace uroce::perf
