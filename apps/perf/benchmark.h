#pragma once

#include <cstdint>
#include <string>

#include "apps/perf/measurement.h"
#include "apps/perf/plan.h"
#include "client/verbs_device.h"

namespace uroce::perf {

/// How `uroce perf` was called.
struct Options {
  Plan plan;
  client::DeviceChoice device;
  std::string peer_device;  // in one process: the second device, or the first again when there is one only
  bool server = false;
  uint16_t listen_port = 0;
  std::string connect;  // empty: no client
  std::string json_path;
  std::string plot_path;
  bool quiet = false;
};

/// Runs the benchmark and reports it. Returns the exit status: 0, 1 for a failure or a mismatch (told on
/// standard error), 128 + signal when interrupted.
int run(const Options& options);

}  // namespace uroce::perf
