#pragma once

#include <rdma/rdma_cma.h>

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "nvmf/rdma/connections.h"

namespace uroce::nvmf {

/// NVMe over RDMA (NVMe-oF 1.1, section 7.3): hosts connect by rdma_cm, and each of their queues is a
/// connection. Any verbs library will do.
///
/// Threads: one for control, which takes connections and ends them, and the pollers, which do everything
/// else. Calls are for any thread. The target outlives the transport; so do devices of
/// with_registered_memory(), whose regions() are shared with it.
class RdmaTransport {
 public:
  /// Errors: EMFILE and the like.
  static Result<std::unique_ptr<RdmaTransport>> open(Target& target, const RdmaOptions& options);
  ~RdmaTransport() { stop(); }
  RdmaTransport(const RdmaTransport&) = delete;
  RdmaTransport& operator=(const RdmaTransport&) = delete;

  /// Hosts may connect to this address, of an RDMA device, or to all with "0.0.0.0" or "::". Also tells the
  /// target, whose discovery log then says so (not the latter two). EINVAL (no address), EADDRNOTAVAIL,
  /// EADDRINUSE, EEXIST.
  Status listen(const std::string& address, uint16_t port);
  /// ENOENT. Connections stay.
  Status stop_listening(const std::string& address, uint16_t port);
  /// Ends all connections; waits for the block requests of their commands.
  void stop();
  /// Without options.own_threads: does what there is to do. One thread at a time, again and again until
  /// stop() has returned. False: there was nothing.
  bool turn() { return connections_.turn(); }

  /// To be given to with_registered_memory().
  [[nodiscard]] const std::shared_ptr<RdmaRegions>& regions() const { return regions_; }
  /// A report of each queue that is there.
  [[nodiscard]] std::vector<RdmaQueueReport> report() const { return connections_.report(); }
  /// How often what happened to connections.
  [[nodiscard]] RdmaEventTotals events() const { return connections_.events(); }

 private:
  RdmaTransport(Target& target, const RdmaOptions& options, rdma_event_channel& channel);
  void run();
  void wait() const;
  void read_cm_events();

  Target& target_;
  const std::shared_ptr<RdmaRegions> regions_;
  struct DestroyChannel {
    void operator()(rdma_event_channel* channel) const { rdma_destroy_event_channel(channel); }
  };
  const std::unique_ptr<rdma_event_channel, DestroyChannel> channel_;
  RdmaConnections connections_;
  RdmaMailbox<int> wakes_;
  std::atomic<bool> stopping_{false};
  std::mutex mutex_;  // of the listeners
  std::map<std::pair<std::string, uint16_t>, rdma_cm_id*> listeners_;
  std::thread thread_;
};

}  // namespace uroce::nvmf
