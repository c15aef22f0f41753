#include "apps/nvmf/shown_target.h"

#include <algorithm>
#include <new>

#include "host/control.h"

namespace uroce::nvmf_target {
namespace {

host::NvmfQueueRow row_of(const nvmf::RdmaQueueReport& queue) {
  using nvmf::RdmaQueueCounter;
  const auto count = [&](RdmaQueueCounter counter) { return queue.totals[static_cast<size_t>(counter)]; };
  host::NvmfQueueRow row{};
  host::set_text(row.host, queue.host);
  host::set_text(row.host_nqn, queue.host_nqn);
  row.queue = queue.qid;
  row.commands = count(RdmaQueueCounter::kCommands);
  row.errors = count(RdmaQueueCounter::kErrors);
  row.bytes_from_host = count(RdmaQueueCounter::kBytesFromHost);
  row.bytes_to_host = count(RdmaQueueCounter::kBytesToHost);
  row.buffer_waits = count(RdmaQueueCounter::kBufferWaits);
  row.sends = count(RdmaQueueCounter::kSends);
  return row;
}

host::NvmfLatency latency_of(const nvmf::NamespaceTotals::Latency& latency) {
  return {.buckets = latency.buckets, .sum_ns = latency.sum_ns};
}

host::NvmfNamespaceRow row_of(const nvmf::Target::NamespaceReport& one) {
  using nvmf::NamespaceCounter;
  static_assert(host::kNvmfCommandsPerMeasured == nvmf::NamespaceCounters::kCommandsPerMeasured);
  host::NvmfNamespaceRow row{};
  host::set_text(row.subsystem, one.nqn);
  row.nsid = one.nsid;
  row.reads = one.totals.of(NamespaceCounter::kReads);
  row.writes = one.totals.of(NamespaceCounter::kWrites);
  row.bytes_read = one.totals.of(NamespaceCounter::kBytesRead);
  row.bytes_written = one.totals.of(NamespaceCounter::kBytesWritten);
  row.errors = one.totals.of(NamespaceCounter::kErrors);
  row.read_latency = latency_of(one.totals.reads);
  row.write_latency = latency_of(one.totals.writes);
  return row;
}

/// To memory that others read meanwhile.
template <typename T>
void store(T& to, const T& from) {
  store_words(reinterpret_cast<std::byte*>(&to), reinterpret_cast<const std::byte*>(&from), sizeof from);
}

}  // namespace

Result<ShownTarget> ShownTarget::make() {
  auto memory = host::make_sealed_memory(host::kNvmfStatisticsName, sizeof(host::NvmfStatistics));
  if (!memory) return memory.error();
  // Zeros already: the rows have pages only when there are queues.
  auto* const shown = reinterpret_cast<host::NvmfStatistics*>(memory->mapping.data());
  shown->head = host::tool_memory(host::kNvmfStatisticsMagic, host::kNvmfStatisticsVersion,
                                  sizeof(host::NvmfStatistics));
  return ShownTarget(std::move(*memory));
}

void ShownTarget::show(std::span<const nvmf::RdmaQueueReport> queues,
                       std::span<const nvmf::Target::NamespaceReport> namespaces) {
  auto& shown = *reinterpret_cast<host::NvmfStatistics*>(memory_.mapping.data());
  const size_t count = std::min<size_t>(queues.size(), host::kNvmfQueuesMax);
  const size_t attached = std::min<size_t>(namespaces.size(), host::kNvmfNamespacesMax);
  const uint64_t before = shown.version.load();
  shown.version.begin(before + 1);
  for (size_t i = 0; i < count; ++i) store(shown.rows[i], row_of(queues[i]));
  store<uint64_t>(shown.queues, count);
  for (size_t i = 0; i < attached; ++i) store(shown.namespace_rows[i], row_of(namespaces[i]));
  store<uint64_t>(shown.namespaces, attached);
  shown.version.end(before + 2);
}

}  // namespace uroce::nvmf_target
