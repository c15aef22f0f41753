#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/stat/latency_values.h"
#include "apps/stat/nvmf_target.h"
#include "apps/stat/shown_statistics.h"
#include "base/counters/counters.h"

namespace uroce::statistics {

using CounterValues = std::array<uint64_t, kCounterCount>;

/// What one look at the processes of this machine found: values, without anything shared.
struct Reading {
  struct Device {
    std::string name;
    std::string port;
    host::DeviceShown shown{};
    std::vector<CounterValues> pollers;
    CounterValues total{};
    std::array<LatencyValues, kLatencyCount> latencies{};  // of all pollers
  };
  struct Process {
    int pid = 0;
    std::string program;
    std::vector<Device> devices;
    ShownStatistics::Rows queue_pairs;
    std::vector<host::RegionRow> regions;  // not more than host::kRegionRowsMax of each group of devices
    NvmfTarget nvmf;
  };

  std::vector<Process> processes;
  std::vector<std::string> complaints;  // a line for each process that shows what cannot be read
  int64_t taken_ns = 0;                 // CLOCK_MONOTONIC
};

/// What of it is wanted.
struct Selection {
  std::optional<int> pid;
  std::string device;       // empty: all
  uint32_t queue_pair = 0;  // 0: all
  bool regions = false;     // with a row for each
  bool asks = true;         // false: only what is there without the processes' doing, which is their counters
};

Reading read_statistics(const Selection& selection);

/// Why a reading has no process, for people.
std::string why_nothing(const Selection& selection);

}  // namespace uroce::statistics
