#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/perf/plan/load.h"
#include "apps/perf/plan/plan.h"
#include "client/verbs_device.h"

namespace uroce::perf {

/// How `uroce perf` was called.
struct Options {
  Plan plan;
  client::DeviceChoice device;
  std::string peer_device;  // in one process: the second device, or the first again when there is one only
  bool server = false;
  uint16_t listen_port = 0;
  std::vector<std::string> connect;  // servers; empty: no client
  std::vector<Load> loads;           // instead of the plan's rounds, one after the other
  bool ramp = false;                 // the highest rate that each of them holds
  std::string json_path;
  std::string csv_path;
  std::string html_path;
  std::string plot_path;
  std::vector<std::string> compared;  // two files of figures, instead of a measurement
  bool quiet = false;
};

/// The other end's device in one process.
client::DeviceChoice peer_choice_of(const Options& options);

}  // namespace uroce::perf
