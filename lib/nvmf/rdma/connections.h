#pragma once

#include <rdma/rdma_cma.h>

#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "nvmf/rdma/admission.h"
#include "nvmf/rdma/devices.h"
#include "nvmf/rdma/events.h"

namespace uroce::nvmf {

struct RdmaQueueReport {
  std::string host;      // its address
  std::string host_nqn;  // printable; empty before Connect
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
  /// Ends what is late. To be called again and again.
  void watch();
  /// How long to wait for anything else before the next watch().
  [[nodiscard]] int watch_ms() const { return admission_.has_waiting() ? kWatchMs : -1; }
  void end_all();
  [[nodiscard]] bool empty() const { return connections_.empty(); }

  /// What is to be polled for read_device_events() and read_reports().
  [[nodiscard]] std::vector<int> descriptors() const;

  [[nodiscard]] std::vector<RdmaQueueReport> report() const;
  [[nodiscard]] RdmaEventTotals events() const { return events_.totals(); }

  /// Pollers without threads of their own; see RdmaPoller::turn().
  bool turn() {
    bool worked = false;
    for (const auto& poller : pollers_) worked |= poller->turn();
    return worked;
  }

 private:
  using Number = RdmaQueue::Number;
  static constexpr int kWatchMs = 100;

  /// What the control thread knows of a queue that is its poller's. The id is the control thread's, and so is
  /// its queue pair.
  struct Connection {
    rdma_cm_id* id;
    RdmaPoller* poller;
    RdmaAddress host;
    uint16_t qid;
    std::shared_ptr<const RdmaQueueCounters> counters;
    std::string host_nqn = {};             // as is
    std::optional<RdmaEvent> ending = {};  // why
  };

  void on_request(const CmEvent& event);
  /// Why it is refused, to people and to the host; nullopt: the connection is being accepted.
  struct Refusal {
    RdmaEvent event;
    RdmaRefusal status;
  };
  std::optional<Refusal> admit(const CmEvent& event, const RdmaAddress& host);
  bool accept(const RdmaQueue::Setup& setup, const ibv_device_attr& device, const CmEvent& event);
  void on_device_event(ibv_async_event& event);
  void on_report(RdmaReport& report);
  void on_connect(Number number, Connection& connection, const ConnectOutcome& outcome);
  /// Begins the end; a second time nothing happens. It is recorded when the poller posts no more, behind what
  /// the poller has to report: that the host has connected.
  void end(Number number, RdmaEvent why);
  void retire(std::unique_ptr<RdmaQueue> queue);
  Connection* find(Number number);
  void record(RdmaEvent event, const Connection& connection, std::string_view more = {});

  const RdmaOptions options_;
  RdmaEvents events_;
  RdmaAdmission admission_;
  RdmaMailbox<RdmaReport> reports_;
  RdmaDevices devices_;
  std::vector<std::unique_ptr<RdmaPoller>> pollers_;  // they end before the devices
  mutable std::mutex mutex_;                          // of connections_, which report() reads
  std::map<Number, Connection> connections_;
  Number last_number_ = 0;
};

}  // namespace uroce::nvmf
