#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/perf/plan.h"

namespace uroce::perf {

struct Bandwidth {
  uint64_t messages = 0;  // sent
  uint64_t received = 0;
  double seconds = 0;
  double gigabits_per_second = 0;  // of what was received
  double messages_per_second = 0;
};

/// Round trips in microseconds.
struct Latency {
  uint64_t samples = 0;
  uint64_t lost = 0;  // pings without an answer
  double p50_us = 0;
  double p99_us = 0;
  double p999_us = 0;
};

/// All that was measured of one operation at one size.
struct Measurement {
  Operation operation = Operation::kWrite;
  uint64_t size = 0;
  std::optional<Bandwidth> bandwidth;
  std::optional<Latency> latency;
  uint64_t bytes_verified = 0;
};

/// What was measured, and between which ends.
struct Report {
  Service service = Service::kRc;
  std::string device;
  std::string peer;  // device, or host
  std::string address;
  std::string peer_address;
  std::string arrangement;  // "both ends in this process", "client"
  uint32_t path_mtu = 0;
  uint32_t depth = 0;
  std::vector<Measurement> measurements;
};

}  // namespace uroce::perf
