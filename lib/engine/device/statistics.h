#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/counters/counters.h"
#include "base/counters/latencies.h"
#include "base/values/result.h"
#include "engine/platform/parker.h"
#include "engine/platform/thread.h"
#include "engine/poller/notice_ring.h"
#include "host/own_statistics.h"

namespace uroce::engine {

struct DeviceState;

/// What devices that are opened together show to tools (host/statistics_format.h): the counters of their
/// pollers, which count there, and what a thread writes when a tool asks, by commands to the pollers. The
/// same thread writes to the log what the pollers leave for it. It sleeps otherwise, and no turn of a poller
/// is any longer for it.
class Statistics {
 public:
  Statistics() = default;
  ~Statistics() { stop(); }
  Statistics(const Statistics&) = delete;
  Statistics& operator=(const Statistics&) = delete;

  /// Before the devices are made. EMFILE, ENOMEM, ENOSYS, E2BIG: there is no such memory; devices count in
  /// their own, and nothing is shown.
  /// `log_level`: of "info", lines are written of queue pairs that fail; of "debug", of what was ordered,
  /// too.
  Status make(size_t devices, uint16_t pollers, std::string_view log_level = {});
  /// The counters of each poller of the device at `index`, in memory that lives as long as what keep()
  /// returns; empty: it has no such memory.
  [[nodiscard]] std::vector<Counters*> counters_of(size_t index) const;
  /// Their latencies, likewise.
  [[nodiscard]] std::vector<Latencies*> latencies_of(size_t index) const;
  /// The rings for notices of their queue pairs, likewise; none when nothing is to be logged.
  [[nodiscard]] std::vector<qp::NoticeListener*> notices_of(size_t index) const;
  [[nodiscard]] std::shared_ptr<const void> keep() const { return shared_; }

  /// The devices, which outlive this or its stop().
  void add(DeviceState& device);
  /// From now on tools see the devices; so does DPDK's telemetry, when they need EAL. EAGAIN: there is no
  /// thread; devices count, and tools do not see them.
  Status start(bool eal);
  /// Tools see nothing any more, and the thread has ended, when this returns.
  void stop();
  /// In a forked child, where the thread does not exist.
  void abandon();

 private:
  /// What pollers may touch until they are gone.
  struct Shared {
    explicit Shared(host::OwnStatistics made) : memory(std::move(made)) {}
    host::OwnStatistics memory;
    Parker sleep;                                      // the thread's
    std::vector<std::unique_ptr<NoticeRing>> notices;  // of each device and poller, or none at all
  };
  void answer();
  void describe(uint32_t index);
  /// Fills in rows, and what the device shows of all of them; how many rows.
  size_t describe_regions(uint32_t index, std::span<host::RegionRow> rows);
  void write_notices();
  [[nodiscard]] bool has_notices() const;

  std::shared_ptr<Shared> shared_;  // null: nothing is shown
  uint16_t pollers_ = 0;
  std::vector<DeviceState*> devices_;
  std::atomic<bool> stopping_{false};
  std::optional<Thread> thread_;
};

}  // namespace uroce::engine
