#pragma once

#include <memory>
#include <optional>

#include "apps/perf/load/load_end.h"
#include "apps/perf/load/load_threads.h"
#include "apps/perf/measurement/cpu_meter.h"
#include "apps/perf/plan/options.h"
#include "client/channel.h"

namespace uroce::perf {

/// What a run of a load came to.
struct LoadOutcome {
  LoadCounts there;
  LoadCounts back;  // of a bidirectional load
  uint64_t lost_there = 0;
  uint64_t lost_back = 0;
  CpuUse cpu;                        // of this process in the measured time
  std::optional<double> peer_cpu_s;  // of other processes, in all of the run
  uint64_t bytes_verified = 0;
};

/// The ends of a load at this side, and what is at the other: ends of this process, or servers.
class LoadRunner {
 public:
  /// Makes and connects all queue pairs. `options` must outlive it. `channels`: to the servers, which have
  /// the plan; empty: both ends are here. Throws Failure.
  LoadRunner(const Options& options, const Load& load, std::vector<client::Channel*> channels);

  /// `rate`: messages a second in each direction, of all together; 0: as many as there is room for.
  LoadOutcome run(double rate);

  /// The servers may go on to something else.
  void part();

  [[nodiscard]] const client::VerbsDevice& device() const { return device_; }
  [[nodiscard]] const ibv_gid& peer_gid() const { return peer_gid_; }
  [[nodiscard]] uint32_t path_mtu() const { return ends_.front()->path_mtu(); }

 private:
  [[nodiscard]] size_t peers() const { return channels_.empty() ? 1 : channels_.size(); }
  void meet_here(const client::DeviceChoice& choice, const Load& part);
  void meet(client::Channel& channel, size_t peer);
  void begin(double rate, std::chrono::steady_clock::time_point start);
  void settle(LoadOutcome& outcome);
  void collect(LoadOutcome& outcome);
  void look();

  const Options& options_;
  Load load_;
  std::vector<client::Channel*> channels_;
  client::VerbsDevice device_;
  std::optional<client::VerbsDevice> peer_device_;
  // Of each thread one end for each peer: end t * peers + p.
  std::vector<std::unique_ptr<LoadEnd>> ends_;
  std::vector<std::unique_ptr<LoadEnd>> far_ends_;  // in this process
  std::vector<LoadClaims> far_claims_;              // as of ends_
  std::unique_ptr<LoadThreads> threads_;
  ibv_gid peer_gid_{};
  uint64_t seed_ = 0;
};

}  // namespace uroce::perf
