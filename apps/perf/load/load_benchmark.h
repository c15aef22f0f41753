#pragma once

#include "apps/perf/measurement/measurement.h"
#include "apps/perf/plan/options.h"

namespace uroce::perf {

/// Runs the loads of `options`, in this process or as the client of servers. Throws Failure.
Report run_loads(const Options& options);

}  // namespace uroce::perf
