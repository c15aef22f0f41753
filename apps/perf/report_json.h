#pragma once

#include <string>

#include "apps/perf/measurement.h"

namespace uroce::perf {

/// One flat object: "write.4096.gigabits_per_second": 12.3 and so on, and what was measured with
/// ("device", "path_mtu" ...).
std::string json_of(const Report& report);

}  // namespace uroce::perf
