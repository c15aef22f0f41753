#pragma once

#include <array>
#include <cstdint>

#include "base/counters/latencies.h"
#include "base/threads/versioned_words.h"
#include "host/tool_memory.h"

// What an NVMe-oF target shows of its queues and namespaces: a memfd as of statistics_format.h, found
// likewise. The target writes it once a second.
namespace uroce::host {

inline constexpr char kNvmfStatisticsName[] = "uroce-nvmf-queues";       // of the memfd
inline constexpr uint64_t kNvmfStatisticsMagic = 0x4651'6563'6F72'7503;  // "\3urocQF"
inline constexpr uint32_t kNvmfStatisticsVersion = 1;
inline constexpr uint32_t kNvmfQueuesMax = 1024;
inline constexpr uint32_t kNvmfNamespacesMax = 1024;

/// Every number of a queue: name, unit and help.
// clang-format off
#define UROCE_NVMF_QUEUE_VALUES(X)                                                    \
  X(commands, "commands", "Answered")                                                 \
  X(errors, "commands", "Answered with another status than success")                  \
  X(bytes_from_host, "bytes", "Data of writes")                                       \
  X(bytes_to_host, "bytes", "Data of reads")                                          \
  X(buffer_waits, "commands", "Found no free buffer, and waited")                     \
  X(sends, "times", "Calls of ibv_post_send")
// clang-format on

struct NvmfQueueRow {
  std::array<char, 64> host;       // its address
  std::array<char, 224> host_nqn;  // empty before Connect
  uint64_t queue;                  // 0: of administration
#define X(name, unit, help) uint64_t name;
  UROCE_NVMF_QUEUE_VALUES(X)
#undef X
};
static_assert(sizeof(NvmfQueueRow) % sizeof(uint64_t) == 0);

/// Every number of a namespace: name, unit and help.
// clang-format off
#define UROCE_NVMF_NAMESPACE_VALUES(X)                                                \
  X(reads, "commands", "Reads and compares that were successful")                     \
  X(writes, "commands", "Writes that were successful")                                \
  X(bytes_read, "bytes", "Data of these reads")                                       \
  X(bytes_written, "bytes", "Data of these writes")                                   \
  X(errors, "commands", "I/O commands that ended with another status than success")
// clang-format on

/// One of so many successful commands of a queue is measured, from the turn that received it to its outcome.
inline constexpr uint32_t kNvmfCommandsPerMeasured = 16;

struct NvmfLatency {
  std::array<uint64_t, LatencyHistogram::kBuckets> buckets;
  uint64_t sum_ns;
};

struct NvmfNamespaceRow {
  std::array<char, 224> subsystem;  // its NQN
  uint64_t nsid;
#define X(name, unit, help) uint64_t name;
  UROCE_NVMF_NAMESPACE_VALUES(X)
#undef X
  NvmfLatency read_latency;
  NvmfLatency write_latency;
};

static_assert(sizeof(NvmfNamespaceRow) % sizeof(uint64_t) == 0);

struct NvmfStatistics {
  ToolMemory head;
  Version version;      // odd while the rest changes
  uint64_t queues;      // of which there are rows
  uint64_t namespaces;  // likewise
  std::array<NvmfQueueRow, kNvmfQueuesMax> rows;
  std::array<NvmfNamespaceRow, kNvmfNamespacesMax> namespace_rows;
};

}  // namespace uroce::host
