#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/counters/counters.h"
#include "base/process/descriptor.h"
#include "base/values/result.h"
#include "host/process_memory.h"
#include "host/shared_memory.h"
#include "host/statistics_format.h"

namespace uroce::statistics {

/// What another process shows, as a reader sees it.
class ShownStatistics {
 public:
  /// Where a process has such memory.
  struct Place {
    int pid;
    int descriptor;
    bool nvmf = false;  // of an NVMe-oF target, for read_nvmf_target()
  };
  struct Found {
    std::vector<Place> places;  // those of a process side by side, its devices first
    size_t unseen = 0;          // processes that there was no time for
  };
  /// The places of all processes whose descriptors this one may see, or only those of `pid`, found by the
  /// time `until_ns` of CLOCK_MONOTONIC. Processes of the users come in turns.
  static Found find(std::optional<int> pid, int64_t until_ns);

  /// Maps what the process shows. EPROTO, with what is wrong: another version, too short, or not sealed;
  /// ENOENT: it has ended or is about to, or is a forked child whose parent's it is; EACCES.
  static Result<ShownStatistics> open(Place place);

  [[nodiscard]] int pid() const { return pid_; }
  [[nodiscard]] uint32_t owner() const { return owner_; }
  [[nodiscard]] uint64_t inode() const { return inode_; }
  [[nodiscard]] std::string program() const;
  [[nodiscard]] uint32_t devices() const { return devices_; }
  [[nodiscard]] uint32_t pollers() const { return pollers_; }
  [[nodiscard]] std::string device_name(uint32_t device) const;
  [[nodiscard]] std::string device_port(uint32_t device) const;
  /// What the process said of the device when it was asked last.
  [[nodiscard]] const host::DeviceShown& device(uint32_t device) const {
    return *layout_.device(memory_.data(), device);
  }
  [[nodiscard]] uint64_t counter(uint32_t device, uint32_t poller, Counter counter) const {
    return layout_.counters(memory_.data(), device, poller)->read(counter);
  }

  [[nodiscard]] const LatencyHistogram& latency(uint32_t device, uint32_t poller, Latency latency) const {
    return layout_.latencies(memory_.data(), device, poller)->of(latency);
  }

  struct Rows {
    std::vector<host::QueuePairRow> rows;
    std::vector<host::RegionRow> regions;  // if they were asked for; at most host::kRegionRowsMax
    uint32_t queue_pairs = 0;              // that there are; more than rows: the newest are shown
    bool current = false;     // false: the process does not answer, and this is what it said at ...
    int64_t answered_ns = 0;  // ... that time of CLOCK_MONOTONIC; 0: never
  };
  struct Wanted {
    uint32_t queue_pair = 0;  // 0: all
    bool regions = false;
  };
  /// What the process wrote when it was asked last, with at most `rows_max` rows of each kind. `current` is
  /// the caller's.
  [[nodiscard]] Rows rows(Wanted wanted, size_t rows_max) const;
  /// For asking (asking_together.h): another reader has it for as long as it waits for its answer.
  [[nodiscard]] bool try_lock() const;
  void unlock() const;
  [[nodiscard]] host::StatisticsHeader& header() const {
    return *reinterpret_cast<host::StatisticsHeader*>(memory_.data());
  }

 private:
  ShownStatistics(int pid, host::OpenedMemory opened, host::Mapping memory, host::StatisticsLayout layout)
      : pid_(pid),
        owner_(opened.owner),
        inode_(opened.inode),
        descriptor_(std::move(opened.descriptor)),
        memory_(std::move(memory)),
        layout_(layout) {}

  int pid_;
  uint32_t owner_;
  uint64_t inode_;
  Descriptor descriptor_;
  host::Mapping memory_;
  host::StatisticsLayout layout_;
  uint32_t devices_ = 0;
  uint32_t pollers_ = 0;
};

}  // namespace uroce::statistics
