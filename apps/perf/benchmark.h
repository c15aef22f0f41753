#pragma once

#include "apps/perf/plan/options.h"

namespace uroce::perf {

/// Runs the benchmark and reports it. Returns the exit status: 0, 1 for a failure or a mismatch (told on
/// standard error), 128 + signal when interrupted.
int run(const Options& options);

}  // namespace uroce::perf
