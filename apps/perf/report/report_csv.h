#pragma once

#include <string>

#include "apps/perf/measurement/measurement.h"

namespace uroce::perf {

/// The figures of json_of(), a line for each measurement ("write.4096") and a column for each figure.
std::string csv_of(const Report& report);

}  // namespace uroce::perf
