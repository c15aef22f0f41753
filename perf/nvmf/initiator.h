#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "client/histogram.h"
#include "nvmf_host/rdma_session.h"
#include "perf/nvmf/io_traffic.h"

namespace uroce::perf {

/// An NVMe/RDMA host with one I/O queue that is kept full of reads or of writes. Its memory is one region
/// that the target may access all the time, so an I/O costs the host a SEND and a receive; or, `registered`,
/// a region for each I/O, which costs one work request more. One thread. Throws Failure, or what the session
/// throws.
class Initiator {
 public:
  using Clock = std::chrono::steady_clock;

  Initiator(const IoTraffic& traffic, const IoPlace& place);

  /// Before each run: new data to be written, or, before the first, a namespace full of data to be read.
  /// Every wait for the target calls `far_end`.
  void prepare(const std::function<void()>& far_end);

  /// Keeps the queue full for `time`, or for `commands` if they are not 0, and waits for the last.
  struct Done {
    uint64_t commands = 0;
    double seconds = 0;
  };
  template <typename FarEnd>
  Done run(double seconds, uint64_t commands, FarEnd far_end) {
    begin(seconds, commands);
    while (under_way() != 0 || !full_) {
      post();
      far_end();
      take();
    }
    return {completed_ - first_, std::chrono::duration<double>(last_seen_ - started_).count()};
  }
  [[nodiscard]] const client::Histogram& latencies() const { return latencies_; }

  /// What each slot read last, or wrote last, in the last run is what the namespace holds.
  void verify(const std::function<void()>& far_end);

 private:
  struct Slot {
    nvmf::Command command{};
    uint64_t unit = 0;  // of the namespace: the bytes of one I/O
    Clock::time_point sent{};
  };

  void begin(double seconds, uint64_t commands);
  void post();
  void take();
  void aim(Slot& slot, uint32_t index);
  void complete(const nvmf::Completion& completion);
  static void check(const nvmf::Completion& completion);
  void fill(const std::function<void()>& far_end);
  void give_up_if_ended();
  /// Writes or reads a unit with each of the first slots, while no other command is under way.
  void move(bool write, std::span<const uint64_t> units, const std::function<void()>& far_end);
  [[nodiscard]] nvmf::Command command_of(bool write, uint16_t cid, uint64_t unit) const;
  [[nodiscard]] std::span<std::byte> memory(uint32_t slot) const {
    return queue_.memory(static_cast<uint16_t>(slot)).first(traffic_.bytes);
  }
  /// Bytes of data that come with each command of a run.
  [[nodiscard]] uint32_t in_capsule_bytes() const {
    return traffic_.write && traffic_.in_capsule ? traffic_.bytes : 0;
  }
  [[nodiscard]] uint64_t under_way() const { return posted_ - completed_; }

  const IoTraffic traffic_;
  const uint64_t units_;
  nvmf_host::RdmaSession session_;
  nvmf_host::RdmaHostQueue& queue_;
  std::vector<Slot> slots_;
  std::vector<uint16_t> free_;            // slots
  std::vector<uint16_t> unacknowledged_;  // slots that are answered, but their SENDs not acknowledged
  std::vector<const nvmf::Command*> batch_;
  uint64_t random_ = 0x9E3779B97F4A7C15;
  uint64_t next_ = 0;  // unit, in sequence
  uint64_t seed_ = 0;  // of what slot 0 writes; the others' follow
  bool filled_ = false;

  // Of this run.
  Clock::time_point started_{};
  Clock::time_point until_{};
  Clock::time_point last_seen_{};  // completion
  uint64_t first_ = 0;
  uint64_t end_ = 0;
  bool full_ = false;  // nothing more is to be posted
  uint32_t silent_ = 0;
  uint64_t posted_ = 0;
  uint64_t completed_ = 0;
  client::Histogram latencies_;
};

}  // namespace uroce::perf
