#include "apps/stat/reading.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <utility>

#include "apps/serve/question.h"
#include "apps/stat/asking_together.h"

namespace uroce::statistics {
namespace {

Reading::Device read_device(const ShownStatistics& shown, uint32_t index) {
  Reading::Device device{.name = shown.device_name(index),
                         .port = shown.device_port(index),
                         .shown = shown.device(index),
                         .pollers = {},
                         .total = {},
                         .latencies = {}};
  for (uint32_t poller = 0; poller < std::min(shown.pollers(), device.shown.pollers); ++poller) {
    CounterValues& values = device.pollers.emplace_back();
    for (size_t i = 0; i < kCounterCount; ++i) {
      values[i] = shown.counter(index, poller, static_cast<Counter>(i));
      device.total[i] += values[i];
    }
    for (size_t i = 0; i < kLatencyCount; ++i)
      device.latencies[i].add(shown.latency(index, poller, static_cast<Latency>(i)));
  }
  return device;
}

/// Devices that are opened together are one memory; a process with two of them has two. `asked`: its rows.
void add(const ShownStatistics& shown, const Selection& selection, ShownStatistics::Rows asked,
         Reading& reading) {
  if (reading.processes.empty() || reading.processes.back().pid != shown.pid())
    reading.processes.push_back({.pid = shown.pid(),
                                 .program = shown.program(),
                                 .devices = {},
                                 .queue_pairs = {.current = true},
                                 .regions = {},
                                 .nvmf = {}});
  Reading::Process& process = reading.processes.back();
  const auto first = static_cast<uint32_t>(process.devices.size());
  std::vector<std::optional<uint32_t>> place(shown.devices());  // in `devices`, of those that are wanted
  for (uint32_t i = 0; i < shown.devices(); ++i) {
    Reading::Device device = read_device(shown, i);
    if (!selection.device.empty() && device.name != selection.device) continue;
    place[i] =
        first + static_cast<uint32_t>(std::ranges::count_if(place, [](auto p) { return p.has_value(); }));
    process.devices.push_back(std::move(device));
  }
  ShownStatistics::Rows& all = process.queue_pairs;
  for (host::QueuePairRow& row : asked.rows) {
    if (row.device >= place.size() || !place[row.device]) continue;
    row.device = *place[row.device];
    all.rows.push_back(row);
  }
  for (host::RegionRow& row : asked.regions) {
    if (row.device >= place.size() || !place[row.device]) continue;
    row.device = *place[row.device];
    process.regions.push_back(row);
  }
  all.queue_pairs += asked.queue_pairs;
  all.current = all.current && asked.current;
  all.answered_ns = all.answered_ns == 0 ? asked.answered_ns : std::min(all.answered_ns, asked.answered_ns);
}

// The processes may be a thousand of one user, made to keep readers busy. All of them together get this time,
// and each user this much of what is read; since users come in turns, the others have theirs before.
constexpr int64_t kFindNs = 2'000'000'000;
constexpr int64_t kReadNs = 5'000'000'000;     // all of it
constexpr int64_t kAnswerNs = 500'000'000;     // processes that are asked together
constexpr int64_t kAnswersNs = 2'000'000'000;  // all of them
constexpr size_t kTogether = 128;              // memories: two descriptors each
constexpr size_t kCountersOfUserMax = 2048;    // memory of a poller for a device
constexpr size_t kCountersOfProcessMax = 256;
constexpr size_t kRowsOfUserMax = 65'536;
constexpr size_t kComplaintsMax = 64;

/// One look, in which memories are opened and asked kTogether at a time.
class ReadingOfProcesses {
 public:
  explicit ReadingOfProcesses(const Selection& selection)
      : selection_(selection), answers_until_(began_ + kAnswersNs) {}

  Reading read() {
    const ShownStatistics::Found found = ShownStatistics::find(selection_.pid, began_ + kFindNs);
    left_out_ += found.unseen;
    for (const ShownStatistics::Place& place : found.places)
      if (is_in_time()) open(place);
    add_opened();
    for (const ShownStatistics::Place& place : targets_)
      if (is_in_time()) add_target(place);
    auto& processes = reading_.processes;
    std::erase_if(processes, [](const Reading::Process& process) { return process.devices.empty(); });
    std::ranges::sort(processes, {}, &Reading::Process::pid);
    if (left_out_ != 0)
      reading_.complaints.push_back(fmt::format(
          "{} processes or statistics of processes were left out: there are too many", left_out_));
    reading_.taken_ns = serve::now_ns();
    return std::move(reading_);
  }

 private:
  struct OfUser {
    size_t counters = 0;
    size_t rows = 0;
  };

  /// False: what comes now is left out.
  bool is_in_time() {
    if (serve::now_ns() < began_ + kReadNs) return true;
    ++left_out_;
    return false;
  }

  void complain(const std::string& what) {
    if (reading_.complaints.size() == kComplaintsMax) {
      ++left_out_;
    } else {
      reading_.complaints.push_back(what);
    }
  }

  void open(const ShownStatistics::Place& place) {
    if (place.nvmf) return targets_.push_back(place);
    if (opened_.size() >= kTogether && opened_.back().pid() != place.pid) add_opened();
    auto shown = ShownStatistics::open(place);
    if (!shown) {
      if (shown.error().code != ENOENT) complain(shown.error().message);
      return;
    }
    const auto same = [&](const ShownStatistics& other) {
      return other.pid() == shown->pid() && other.inode() == shown->inode();
    };
    if (std::ranges::any_of(opened_, same)) return;
    size_t of_process = size_t{shown->devices()} * shown->pollers();
    size_t& of_user = users_[shown->owner()].counters;
    of_user += of_process;
    for (const ShownStatistics& other : opened_)
      if (other.pid() == shown->pid()) of_process += size_t{other.devices()} * other.pollers();
    if (of_process > kCountersOfProcessMax || of_user > kCountersOfUserMax) {
      ++left_out_;
      return;
    }
    opened_.push_back(std::move(*shown));
  }

  void add_opened() {
    const ShownStatistics::Wanted wanted{.queue_pair = selection_.queue_pair, .regions = selection_.regions};
    std::vector<ShownStatistics::Rows> rows(opened_.size());
    if (selection_.asks)
      rows = ask_together(
          opened_, {.wanted = wanted, .until_ns = std::min(serve::now_ns() + kAnswerNs, answers_until_)});
    for (size_t i = 0; i < opened_.size(); ++i) {
      size_t& of_user = users_[opened_[i].owner()].rows;
      const size_t room = kRowsOfUserMax - std::min(of_user, kRowsOfUserMax);
      if (rows[i].rows.size() > room) rows[i].rows.resize(room);
      if (rows[i].regions.size() > room) rows[i].regions.resize(room);
      of_user += std::max(rows[i].rows.size(), rows[i].regions.size());
      add(opened_[i], selection_, std::move(rows[i]), reading_);
    }
    opened_.clear();
  }

  void add_target(const ShownStatistics::Place& place) {
    const auto process = std::ranges::find(reading_.processes, place.pid, &Reading::Process::pid);
    if (process == reading_.processes.end() || !process->nvmf.queues.empty()) return;
    process->nvmf = read_nvmf_target(place);
  }

  const Selection& selection_;
  const int64_t began_ = serve::now_ns();
  const int64_t answers_until_;
  std::vector<ShownStatistics> opened_;  // and not read yet
  std::vector<ShownStatistics::Place> targets_;
  std::map<uint32_t, OfUser> users_;
  size_t left_out_ = 0;
  Reading reading_;
};

}  // namespace

Reading read_statistics(const Selection& selection) { return ReadingOfProcesses(selection).read(); }

std::string why_nothing(const Selection& selection) {
  if (!selection.pid)
    return selection.device.empty()
               ? "no process that you may look at has a device of uroce open"
               : fmt::format("no process that you may look at has a device {} open", selection.device);
  struct stat status {};
  if (stat(fmt::format("/proc/{}", *selection.pid).c_str(), &status) != 0)
    return fmt::format("there is no process {}", *selection.pid);
  return fmt::format("process {} has no device {}open, or is not yours", *selection.pid,
                     selection.device.empty() ? "of uroce " : selection.device + " ");
}

}  // namespace uroce::statistics
