#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "apps/stat/latency_values.h"
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

/// One of its namespaces, likewise.
struct NvmfNamespace {
  std::string subsystem;
  uint64_t nsid = 0;
  host::NvmfNamespaceRow row{};
  LatencyValues reads{};
  LatencyValues writes{};
};

struct NvmfTarget {
  std::vector<NvmfQueue> queues;
  std::vector<NvmfNamespace> namespaces;
};

/// What a target shows; nothing if that is damaged, of another version, or of the process's parent.
NvmfTarget read_nvmf_target(ShownStatistics::Place place);

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

/// Numbers of a namespace, likewise.
struct NvmfNamespaceValue {
  const char* label;
  const char* unit;
  const char* help;
  uint64_t (*of)(const host::NvmfNamespaceRow& row);
};
inline constexpr std::array kNvmfNamespaceValues{
#define X(name, unit, help) \
  NvmfNamespaceValue{#name, unit, help, [](const host::NvmfNamespaceRow& row) { return row.name; }},
    UROCE_NVMF_NAMESPACE_VALUES(X)
#undef X
};

/// Its latencies, likewise.
struct NvmfNamespaceLatency {
  const char* operation;
  const LatencyValues NvmfNamespace::*of;
};
inline constexpr std::array kNvmfNamespaceLatencies{NvmfNamespaceLatency{"read", &NvmfNamespace::reads},
                                                    NvmfNamespaceLatency{"write", &NvmfNamespace::writes}};

}  // namespace uroce::statistics
