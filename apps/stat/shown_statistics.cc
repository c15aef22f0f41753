// The memory of a process is a memfd, found below /proc: nothing is left of a killed process, no folder must
// exist, the kernel keeps containers and users apart, and the seal against truncation keeps a reader from
// making the process fault. Cost: a descriptor for each group of devices, and a reader looks at the
// descriptors of all processes.
// A reader of another build is refused by a hash of the counters' labels.
#include "apps/stat/shown_statistics.h"

#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "apps/serve/question.h"
#include "base/counters/counter_texts.h"
#include "base/values/printable.h"
#include "host/nvmf_format.h"
#include "host/process_memory.h"

namespace uroce::statistics {

using host::kRowsMax;
using host::kStatisticsName;
using host::Mapping;
using host::QueuePairRow;
using host::StatisticsHeader;
using host::StatisticsLayout;

namespace {

constexpr std::array<std::string_view, 2> kNames{kStatisticsName, host::kNvmfStatisticsName};

void find_in(int pid, std::vector<ShownStatistics::Place>& places) {
  const auto first = static_cast<ptrdiff_t>(places.size());
  for (const host::FoundMemory& memory : host::memories_of(pid, kNames))
    places.push_back({pid, memory.descriptor, memory.name == kNames[1]});
  std::ranges::stable_sort(places.begin() + first, places.end(), {}, &ShownStatistics::Place::nvmf);
}

Error wrong(int pid, const std::string& what) {
  return {EPROTO, "process " + std::to_string(pid) + ": statistics " + what};
}

/// What is wrong with what its beginning says, or nothing.
std::string complaint_about(const StatisticsHeader& header, uint64_t bytes) {
  if (header.head.magic != host::kStatisticsMagic) return "have another format";
  if (header.head.version != host::kStatisticsVersion)
    return "are of version " + std::to_string(header.head.version) + ", this program reads version " +
           std::to_string(host::kStatisticsVersion);
  if (header.counters != kCounterCount || header.counter_table != counter_table_hash())
    return "are of another build of uroce, which counts other things";
  if (header.devices > host::kShownDevicesMax || header.pollers > host::kShownPollersMax ||
      header.head.bytes != StatisticsLayout(header.devices, header.pollers).bytes())
    return "contradict themselves";
  if (header.head.bytes != bytes) return "are truncated";
  return {};
}

}  // namespace

ShownStatistics::Found ShownStatistics::find(std::optional<int> pid, int64_t until_ns) {
  Found found;
  if (pid) {
    find_in(*pid, found.places);
    return found;
  }
  for (const int one : host::processes_in_turns()) {
    if (serve::now_ns() >= until_ns) {
      ++found.unseen;
    } else {
      find_in(one, found.places);
    }
  }
  return found;
}

Result<ShownStatistics> ShownStatistics::open(Place place) {
  const int pid = place.pid;
  auto opened = host::open_memory(pid, place.descriptor, kStatisticsName, O_RDWR);
  if (!opened)
    return Error{opened.error().code,
                 "process " + std::to_string(pid) + ": statistics: " + opened.error().message};
  auto memory = host::map_open_memory(opened->descriptor.get(), sizeof(StatisticsHeader));
  if (!memory) return Error{memory.error().code, wrong(pid, memory.error().message).message};
  StatisticsHeader header{};
  std::memcpy(static_cast<void*>(&header), memory->data(), sizeof header);
  if (const std::string complaint = complaint_about(header, memory->bytes()); !complaint.empty())
    return wrong(pid, complaint);
  if (!host::belongs_to(header.head, pid))
    return Error{ENOENT, "process " + std::to_string(pid) + ": its statistics are those of its parent"};
  if (!header.question.is_open())
    return Error{ENOENT, "process " + std::to_string(pid) + ": its devices are closed"};
  ShownStatistics shown(pid, std::move(*opened), std::move(*memory),
                        StatisticsLayout(header.devices, header.pollers));
  shown.devices_ = header.devices;
  shown.pollers_ = header.pollers;
  return shown;
}

std::string ShownStatistics::program() const { return printable(header().head.program); }
std::string ShownStatistics::device_name(uint32_t index) const { return printable(device(index).name); }
std::string ShownStatistics::device_port(uint32_t index) const { return printable(device(index).port); }

bool ShownStatistics::try_lock() const { return flock(descriptor_.get(), LOCK_EX | LOCK_NB) == 0; }
void ShownStatistics::unlock() const { flock(descriptor_.get(), LOCK_UN); }

ShownStatistics::Rows ShownStatistics::rows(Wanted wanted, size_t rows_max) const {
  const StatisticsHeader& shared = header();
  Rows result;
  const std::span<QueuePairRow> rows = layout_.rows(memory_.data());
  const size_t count = std::min<size_t>({shared.rows, kRowsMax, rows_max});
  result.rows.assign(rows.begin(), rows.begin() + static_cast<ptrdiff_t>(count));
  if (wanted.regions) {
    const std::span<host::RegionRow> regions = layout_.regions(memory_.data());
    const size_t region_count = std::min<size_t>({shared.region_rows, host::kRegionRowsMax, rows_max});
    result.regions.assign(regions.begin(), regions.begin() + static_cast<ptrdiff_t>(region_count));
  }
  result.queue_pairs = shared.queue_pairs;
  result.answered_ns = shared.answered_ns.load(std::memory_order_relaxed);  // nothing but a time
  return result;
}

}  // namespace uroce::statistics
