// The memory of a process is a memfd, found below /proc: nothing is left of a killed process, no folder must
// exist, the kernel keeps containers and users apart, and the seal against truncation keeps a reader from
// making the process fault. Cost: a descriptor for each group of devices, and a reader looks at the
// descriptors of all processes.
// A reader of another build is refused by a hash of the counters' labels.
#include "apps/stat/shown_statistics.h"

#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <tuple>

#include "apps/serve/printable_text.h"
#include "apps/serve/question.h"
#include "base/counter_texts.h"
#include "host/nvmf_format.h"
#include "host/process_memory.h"

namespace uroce::statistics {

using host::kRowsMax;
using host::kStatisticsName;
using host::Mapping;
using host::QueuePairRow;
using host::StatisticsHeader;
using host::StatisticsLayout;
using serve::printable_text;

namespace {

constexpr int64_t kPatienceNs = 500'000'000;

void find_in(int pid, std::vector<ShownStatistics::Place>& places) {
  host::for_each_memory(pid, [&](std::string_view name, int descriptor) {
    if (name == kStatisticsName) places.push_back({pid, descriptor});
    if (name == host::kNvmfStatisticsName) places.push_back({pid, descriptor, true});
  });
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

std::vector<ShownStatistics::Place> ShownStatistics::find(std::optional<int> pid) {
  std::vector<Place> places;
  if (pid) {
    find_in(*pid, places);
  } else {
    host::for_each_number("/proc", [&](int found) { find_in(found, places); });
  }
  // Devices first.
  std::ranges::sort(places, {},
                    [](const Place& place) { return std::tuple(place.pid, place.nvmf, place.descriptor); });
  return places;
}

Result<ShownStatistics> ShownStatistics::open(Place place) {
  const int pid = place.pid;
  auto descriptor = host::open_memory(pid, place.descriptor, O_RDWR);
  if (!descriptor)
    return Error{descriptor.error().code,
                 "process " + std::to_string(pid) + ": statistics: " + descriptor.error().message};
  auto memory = host::map_open_memory(descriptor->get(), sizeof(StatisticsHeader));
  if (!memory) return Error{memory.error().code, wrong(pid, memory.error().message).message};
  StatisticsHeader header{};
  std::memcpy(static_cast<void*>(&header), memory->data(), sizeof header);
  if (const std::string complaint = complaint_about(header, memory->bytes()); !complaint.empty())
    return wrong(pid, complaint);
  if (!host::belongs_to(header.head, pid))
    return Error{ENOENT, "process " + std::to_string(pid) + ": its statistics are those of its parent"};
  if (!header.question.is_open())
    return Error{ENOENT, "process " + std::to_string(pid) + ": its devices are closed"};
  ShownStatistics shown(pid, std::move(*descriptor), std::move(*memory),
                        StatisticsLayout(header.devices, header.pollers));
  shown.devices_ = header.devices;
  shown.pollers_ = header.pollers;
  return shown;
}

std::string ShownStatistics::program() const { return printable_text(header().head.program); }
std::string ShownStatistics::device_name(uint32_t index) const { return printable_text(device(index).name); }
std::string ShownStatistics::device_port(uint32_t index) const { return printable_text(device(index).port); }

ShownStatistics::Rows ShownStatistics::ask(Wanted wanted) const {
  StatisticsHeader& shared = header();
  // Another reader is done soon, or has been stopped: then its rows are as good.
  const bool locked = serve::lock_to_ask(shared.question, kPatienceNs,
                                         [&] { return flock(descriptor_.get(), LOCK_EX | LOCK_NB) == 0; });
  Rows result;
  if (locked) {
    shared.wanted_queue_pair = wanted.queue_pair;
    shared.wants_regions = wanted.regions ? 1 : 0;
    result.current = serve::ask(shared.question, pid_, kPatienceNs) == serve::Outcome::kAnswered;
  }
  const std::span<QueuePairRow> rows = layout_.rows(memory_.data());
  const auto count = std::min<uint32_t>(shared.rows, kRowsMax);
  result.rows.assign(rows.begin(), rows.begin() + count);
  if (wanted.regions) {
    const std::span<host::RegionRow> regions = layout_.regions(memory_.data());
    result.regions.assign(regions.begin(),
                          regions.begin() + std::min<uint32_t>(shared.region_rows, host::kRegionRowsMax));
  }
  result.queue_pairs = shared.queue_pairs;
  result.answered_ns = shared.answered_ns.load(std::memory_order_relaxed);  // nothing but a time
  if (locked) flock(descriptor_.get(), LOCK_UN);
  return result;
}

}  // namespace uroce::statistics
