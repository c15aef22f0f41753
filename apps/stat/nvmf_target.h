#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "apps/stat/shown_statistics.h"
#include "host/nvmf_format.h"

namespace uroce::statistics {

/// A queue of an NVMe-oF target, as it was within the last second.
struct NvmfQueue {
  std::string host;
  std::string host_nqn;
  uint64_t number = 0;
  host::NvmfQueueRow row{};
};

/// The queues that a target shows; none if that is damaged, of another version, or of the process's parent.
std::vector<NvmfQueue> read_nvmf_queues(ShownStatistics::Place place);

/// Numbers of a queue for every tool that shows them.
struct NvmfQueueValue {
  const char* label;
  const char* unit;
  const char* help;
  uint64_t (*of)(const host::NvmfQueueRow& row);
};
inline constexpr std::array kNvmfQueueValues{
#define X(name, unit, help) \
  NvmfQueueValue{#name, unit, help, [](const host::NvmfQueueRow& row) { return row.name; }},
    UROCE_NVMF_QUEUE_VALUES(X)
#undef X
};

}  // namespace uroce::statistics
