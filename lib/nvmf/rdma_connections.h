#pragma once

#include <rdma/rdma_cma.h>

#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "nvmf/rdma_devices.h"

namespace uroce::nvmf {

struct RdmaQueueReport {
  std::string host;  // its address
  uint16_t qid = 0;
  RdmaQueueTotals totals{};
};

/// Connections from the host's request to the end: what events of rdma_cm, of devices and of pollers do to
/// them. Control thread, but for report() and turn().
class RdmaConnections {
 public:
  RdmaConnections(Target& target, const RdmaOptions& options, std::shared_ptr<RdmaRegions> regions);
  /// None is left.
  ~RdmaConnections();

  /// An event that is acknowledged already, with a copy of its private data.
  struct CmEvent {
    rdma_cm_event_type type;
    rdma_cm_id* id;
    rdma_conn_param param;
    std::array<std::byte, 256> private_data;
  };
  void on_cm_event(const CmEvent& event);
  /// Reads what the devices tell.
  void read_device_events();
  void read_reports();
  void break_off_all();
  [[nodiscard]] bool empty() const { return connections_.empty(); }

  /// What is to be polled for read_device_events() and read_reports().
  [[nodiscard]] std::vector<int> descriptors() const;

  [[nodiscard]] std::vector<RdmaQueueReport> report() const;

  /// Pollers without threads of their own; see RdmaPoller::turn().
  bool turn() {
    bool worked = false;
    for (const auto& poller : pollers_) worked |= poller->turn();
    return worked;
  }

 private:
  struct Connection {
    std::unique_ptr<RdmaQueue> queue;
    rdma_cm_id* id;
    RdmaPoller* poller;
    bool broken = false;
  };

  void on_request(const CmEvent& event);
  /// Why not; nullopt: the connection is being accepted.
  std::optional<RdmaRefusal> admit(const CmEvent& event);
  bool accept(Connection& connection, const CmEvent& event);
  void on_device_event(ibv_async_event& event);
  void break_off(Connection& connection, bool connected);
  void retire(const RdmaQueue& queue);
  Connection* find(const rdma_cm_id& id);

  const RdmaOptions options_;
  RdmaMailbox<RdmaReport> reports_;
  RdmaDevices devices_;
  std::vector<std::unique_ptr<RdmaPoller>> pollers_;  // they end before the devices
  mutable std::mutex mutex_;                          // of connections_, which report() reads
  std::map<const RdmaQueue*, Connection> connections_;
};

}  // namespace uroce::nvmf
