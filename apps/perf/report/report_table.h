#pragma once

#include <string>

#include "apps/perf/measurement/measurement.h"

namespace uroce::perf {

/// For people: the devices and the service, then one row per operation and size.
std::string table_of(const Report& report);

}  // namespace uroce::perf
