#include "apps/stat/shown_statistics.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <climits>
#include <cstring>
#include <memory>
#include <string_view>
#include <tuple>

#include "apps/stat/printable_text.h"
#include "base/counter_texts.h"
#include "host/nvmf_format.h"
#include "host/process_start.h"

namespace uroce::statistics {

using host::kRowsMax;
using host::kStatisticsName;
using host::Mapping;
using host::QueuePairRow;
using host::StatisticsHeader;
using host::StatisticsLayout;

namespace {

constexpr int64_t kPatienceNs = 500'000'000;
constexpr int64_t kPauseNs = 2'000'000;

using Folder = std::unique_ptr<DIR, decltype([](DIR* folder) { closedir(folder); })>;

std::optional<int> number_in(std::string_view text) {
  int number = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size()) return std::nullopt;
  return number;
}

template <typename Use>
void for_each_number(const std::string& path, Use use) {
  const Folder folder(opendir(path.c_str()));
  if (folder == nullptr) return;
  while (const dirent* const entry = readdir(folder.get()))
    if (const auto number = number_in(entry->d_name)) use(*number);
}

std::string path_of(ShownStatistics::Place place) {
  return "/proc/" + std::to_string(place.pid) + "/fd/" + std::to_string(place.descriptor);
}

void find_in(int pid, std::vector<ShownStatistics::Place>& places) {
  static const std::string wanted = std::string("/memfd:") + kStatisticsName;
  static const std::string of_target = std::string("/memfd:") + host::kNvmfStatisticsName;
  for_each_number("/proc/" + std::to_string(pid) + "/fd", [&](int descriptor) {
    std::array<char, 64> target{};
    const ssize_t length = readlink(path_of({pid, descriptor}).c_str(), target.data(), target.size());
    if (length <= 0) return;
    const std::string_view name(target.data(), static_cast<size_t>(length));
    if (name.starts_with(wanted)) places.push_back({pid, descriptor});
    if (name.starts_with(of_target)) places.push_back({pid, descriptor, true});
  });
}

Error wrong(int pid, const std::string& what) {
  return {EPROTO, "process " + std::to_string(pid) + ": statistics " + what};
}

/// The memory is of ordinary pages, so that no access faults because there are none of another kind.
bool is_ordinary(int descriptor) {
  struct statfs file_system {};
  return fstatfs(descriptor, &file_system) == 0 && file_system.f_type == TMPFS_MAGIC;
}

int64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

void futex(std::atomic<uint32_t>& word, int operation, uint32_t value) {
  const timespec pause{.tv_sec = 0, .tv_nsec = kPauseNs};
  syscall(SYS_futex, &word, operation, value, operation == FUTEX_WAIT ? &pause : nullptr, nullptr, 0);
}

/// What is wrong with what its beginning says, or nothing.
std::string complaint_about(const StatisticsHeader& header, uint64_t bytes) {
  if (header.magic != host::kStatisticsMagic) return "have another format";
  if (header.version != host::kStatisticsVersion)
    return "are of version " + std::to_string(header.version) + ", this program reads version " +
           std::to_string(host::kStatisticsVersion);
  if (header.counters != kCounterCount || header.counter_table != counter_table_hash())
    return "are of another build of uroce, which counts other things";
  if (header.devices > host::kShownDevicesMax || header.pollers > host::kShownPollersMax ||
      header.bytes != StatisticsLayout(header.devices, header.pollers).bytes())
    return "contradict themselves";
  if (header.bytes != bytes) return "are truncated";
  return {};
}

}  // namespace

std::vector<ShownStatistics::Place> ShownStatistics::find(std::optional<int> pid) {
  std::vector<Place> places;
  if (pid) {
    find_in(*pid, places);
  } else {
    for_each_number("/proc", [&](int found) { find_in(found, places); });
  }
  // Devices first.
  std::ranges::sort(places, {},
                    [](const Place& place) { return std::tuple(place.pid, place.nvmf, place.descriptor); });
  return places;
}

Result<ShownStatistics> ShownStatistics::open(Place place) {
  const int pid = place.pid;
  Descriptor descriptor(::open(path_of(place).c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK));
  if (!descriptor.ok())
    return Error{errno, "process " + std::to_string(pid) + ": statistics: " + std::strerror(errno)};
  const int seals = fcntl(descriptor.get(), F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || !is_ordinary(descriptor.get()))
    return wrong(pid, "are not sealed against truncation");
  struct stat status {};
  if (fstat(descriptor.get(), &status) != 0) return wrong(pid, "cannot be looked at");
  const auto bytes = static_cast<size_t>(status.st_size);
  if (bytes < sizeof(StatisticsHeader)) return wrong(pid, "are truncated");
  void* const data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor.get(), 0);
  if (data == MAP_FAILED) return Error{errno, "mapping statistics: " + std::string(std::strerror(errno))};
  Mapping memory(static_cast<std::byte*>(data), bytes);
  StatisticsHeader header{};
  std::memcpy(static_cast<void*>(&header), data, sizeof header);
  if (const std::string complaint = complaint_about(header, bytes); !complaint.empty())
    return wrong(pid, complaint);
  // A child that was forked has the descriptor, too.
  if (host::start_of_process(pid) != header.started_ticks)
    return Error{ENOENT, "process " + std::to_string(pid) + ": its statistics are those of its parent"};
  if (header.open.load(std::memory_order_acquire) == 0)  // pairs with ~OwnStatistics()
    return Error{ENOENT, "process " + std::to_string(pid) + ": its devices are closed"};
  ShownStatistics shown(pid, std::move(descriptor), std::move(memory),
                        StatisticsLayout(header.devices, header.pollers));
  shown.devices_ = header.devices;
  shown.pollers_ = header.pollers;
  return shown;
}

std::string ShownStatistics::program() const { return printable_text(header().program); }
std::string ShownStatistics::device_name(uint32_t index) const { return printable_text(device(index).name); }
std::string ShownStatistics::device_port(uint32_t index) const { return printable_text(device(index).port); }

bool ShownStatistics::wait_for_answer(uint32_t asked) const {
  for (const int64_t until = now_ns() + kPatienceNs; now_ns() < until;) {
    const uint32_t answered = header().answered.load(std::memory_order_acquire);  // pairs with the answer
    if (answered == asked) return true;
    if (header().open.load(std::memory_order_acquire) == 0) return false;  // pairs with ~OwnStatistics()
    futex(header().answered, FUTEX_WAIT, answered);
  }
  return false;
}

ShownStatistics::Rows ShownStatistics::ask(Wanted wanted) const {
  StatisticsHeader& shared = header();
  // Another reader is done soon, or has been stopped: then its rows are as good.
  bool locked = false;
  for (const int64_t until = now_ns() + kPatienceNs; !locked && now_ns() < until;) {
    locked = flock(descriptor_.get(), LOCK_EX | LOCK_NB) == 0;
    if (!locked) futex(shared.answered, FUTEX_WAIT, shared.answered.load(std::memory_order_relaxed));
  }
  Rows result;
  if (locked) {
    shared.wanted_queue_pair = wanted.queue_pair;
    shared.wants_regions = wanted.regions ? 1 : 0;
    // Release: with what is wanted. seq_cst with the bell: the process looks at it after it has set the bell.
    const uint32_t asked = shared.asked.fetch_add(1, std::memory_order_seq_cst) + 1;
    if (shared.bell.exchange(0, std::memory_order_seq_cst) != 0) futex(shared.bell, FUTEX_WAKE, INT_MAX);
    result.current = wait_for_answer(asked);
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
