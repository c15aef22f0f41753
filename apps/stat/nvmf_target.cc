#include "apps/stat/nvmf_target.h"

#include <fcntl.h>

#include <algorithm>
#include <memory>

#include "base/values/printable.h"
#include "host/process_memory.h"
#include "host/shared_memory.h"

namespace uroce::statistics {

namespace {

/// Copies out of memory that another process writes meanwhile.
template <typename T>
void load(T& to, const T& from) {
  load_words(reinterpret_cast<std::byte*>(&to), reinterpret_cast<const std::byte*>(&from), sizeof from);
}

/// A copy of what did not change meanwhile, or nothing.
std::unique_ptr<host::NvmfStatistics> copy_of(const host::NvmfStatistics& shown) {
  constexpr int kTries = 100;
  auto copy = std::make_unique<host::NvmfStatistics>();
  for (int i = 0; i < kTries; ++i) {
    const uint64_t before = shown.version.load();
    load(copy->rows, shown.rows);
    load(copy->queues, shown.queues);
    copy->queues = std::min<uint64_t>(copy->queues, host::kNvmfQueuesMax);
    load(copy->namespaces, shown.namespaces);
    copy->namespaces = std::min<uint64_t>(copy->namespaces, host::kNvmfNamespacesMax);
    for (size_t one = 0; one < copy->namespaces; ++one)
      load(copy->namespace_rows[one], shown.namespace_rows[one]);
    if (before % 2 == 0 && shown.version.still(before)) return copy;
  }
  return nullptr;
}

}  // namespace

NvmfTarget read_nvmf_target(ShownStatistics::Place place) {
  NvmfTarget target;
  const auto opened = host::open_memory(place.pid, place.descriptor, host::kNvmfStatisticsName, O_RDONLY);
  if (!opened) return target;
  const auto memory = host::map_sealed_memory(opened->descriptor.get(), sizeof(host::NvmfStatistics));
  if (!memory) return target;
  const auto& shown = *reinterpret_cast<const host::NvmfStatistics*>(memory->data());
  if (shown.head.magic != host::kNvmfStatisticsMagic || shown.head.version != host::kNvmfStatisticsVersion ||
      shown.head.bytes != sizeof(host::NvmfStatistics) || !host::belongs_to(shown.head, place.pid))
    return target;
  const auto copy = copy_of(shown);
  for (size_t i = 0; copy != nullptr && i < copy->queues; ++i) {
    const host::NvmfQueueRow& row = copy->rows[i];
    target.queues.push_back(
        {.host = printable(row.host), .host_nqn = printable(row.host_nqn), .number = row.queue, .row = row});
  }
  for (size_t i = 0; copy != nullptr && i < copy->namespaces; ++i) {
    const host::NvmfNamespaceRow& row = copy->namespace_rows[i];
    NvmfNamespace& one = target.namespaces.emplace_back();
    one.subsystem = printable(row.subsystem);
    one.nsid = row.nsid;
    one.row = row;
    one.reads.add(row.read_latency.buckets, row.read_latency.sum_ns);
    one.writes.add(row.write_latency.buckets, row.write_latency.sum_ns);
  }
  return target;
}

}  // namespace uroce::statistics
