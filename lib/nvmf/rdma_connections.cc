#include "nvmf/rdma_connections.h"

#include <arpa/inet.h>

#include <algorithm>
#include <optional>
#include <variant>

namespace uroce::nvmf {
namespace {

std::string address_of(rdma_cm_id& id) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const sockaddr* peer = rdma_get_peer_addr(&id);
  const void* address =
      peer->sa_family == AF_INET6
          ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in6*>(peer)->sin6_addr)
          : &reinterpret_cast<const sockaddr_in*>(peer)->sin_addr;
  return inet_ntop(peer->sa_family, address, text.data(), text.size()) != nullptr ? text.data() : "?";
}

void refuse(rdma_cm_id& id, RdmaRefusal why) {
  const RdmaRejectData data{0, static_cast<uint16_t>(why)};
  // A host that has given up meanwhile need not be told.
  static_cast<void>(rdma_reject(&id, &data, sizeof(data)));
}

void put_into_error_state(ibv_qp& queue_pair) {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_ERR;
  ibv_modify_qp(&queue_pair, &attributes, IBV_QP_STATE);
}

}  // namespace

RdmaConnections::RdmaConnections(Target& target, const RdmaOptions& options,
                                 std::shared_ptr<RdmaRegions> regions)
    : options_(options), devices_(options_, std::move(regions)) {
  std::vector<std::optional<uint32_t>> cores(options_.cores.begin(), options_.cores.end());
  if (cores.empty()) cores.emplace_back();
  for (const auto& core : cores)
    pollers_.push_back(std::make_unique<RdmaPoller>(target, options_, core, reports_));
}

RdmaConnections::~RdmaConnections() = default;

std::vector<int> RdmaConnections::descriptors() const {
  std::vector<int> all{reports_.fd()};
  for (const auto& entry : devices_.all()) all.push_back(entry->device->context().async_fd);
  return all;
}

void RdmaConnections::on_cm_event(const CmEvent& event) {
  if (event.type == RDMA_CM_EVENT_CONNECT_REQUEST) return on_request(event);
  Connection* connection = find(*event.id);
  if (connection == nullptr) return;
  switch (event.type) {
    case RDMA_CM_EVENT_CONNECT_ERROR:
    case RDMA_CM_EVENT_UNREACHABLE:
    case RDMA_CM_EVENT_REJECTED:
    case RDMA_CM_EVENT_DISCONNECTED:
    case RDMA_CM_EVENT_DEVICE_REMOVAL:
      return break_off(*connection, true);
    default:
      // Established: the host's first command says the same. The end of timewait is nobody's business here.
      return;
  }
}

void RdmaConnections::on_request(const CmEvent& event) {
  const std::optional<RdmaRefusal> why = admit(event);
  if (!why) return;
  refuse(*event.id, *why);
  rdma_destroy_id(event.id);
}

std::optional<RdmaRefusal> RdmaConnections::admit(const CmEvent& event) {
  const auto checked = check_request({event.private_data.data(), event.param.private_data_len},
                                     {.admin_entries_max = RdmaOptions::kAdminEntriesMax,
                                      .io_entries_max = options_.io_entries_max,
                                      .qid_max = options_.qid_max});
  if (const auto* why = std::get_if<RdmaRefusal>(&checked)) return *why;
  if (event.param.initiator_depth == 0) return RdmaRefusal::kInboundReads;
  if (connections_.size() >= options_.queues_max) return RdmaRefusal::kNoResources;
  const auto entry = devices_.find(*event.id->verbs, pollers_);
  if (!entry) return RdmaRefusal::kNoResources;
  const auto least =
      std::ranges::min_element(pollers_, {}, [](const auto& one) { return one->queues_assigned; });
  RdmaShare& share = *(*entry)->shares[static_cast<size_t>(least - pollers_.begin())];
  const int device_reads = std::max(share.device().attributes().max_qp_init_rd_atom, 1);
  const RdmaQueue::Setup setup{
      .wish = std::get<RdmaQueueWish>(checked),
      .reads_max = static_cast<uint8_t>(std::min<int>(event.param.initiator_depth, device_reads))};
  auto queue = RdmaQueue::make(share, *event.id, setup, options_);
  if (!queue) return RdmaRefusal::kNoResources;

  const RdmaQueue* key = queue->get();
  std::unique_lock guard(mutex_);
  Connection& connection = connections_[key];
  connection = {std::move(*queue), event.id, least->get(), false};
  guard.unlock();
  // Before the host knows: its first command finds the queue.
  connection.poller->add(*connection.queue);
  // The id goes with the connection now, also when it cannot be accepted.
  if (!accept(connection, event)) break_off(connection, false);
  return std::nullopt;
}

bool RdmaConnections::accept(Connection& connection, const CmEvent& event) {
  RdmaAcceptData data{};
  data.controller_receive_size = static_cast<uint16_t>(connection.queue->entries());
  const ibv_device_attr& device = connection.queue->device_attributes();
  rdma_conn_param param{};
  param.private_data = &data;
  param.private_data_len = sizeof(data);
  // The host reads nothing of us, but may ask to.
  param.responder_resources =
      static_cast<uint8_t>(std::min<int>(event.param.responder_resources, device.max_qp_rd_atom));
  param.initiator_depth = connection.queue->reads_max();
  param.flow_control = 1;
  param.rnr_retry_count = 7;
  return rdma_accept(connection.id, &param) == 0;
}

void RdmaConnections::break_off(Connection& connection, bool connected) {
  if (connection.broken) return;
  connection.broken = true;
  // The queue pair may be in the error state already, and the host gone: both are no error here.
  static_cast<void>(rdma_disconnect(connection.id));
  put_into_error_state(*connection.id->qp);
  connection.poller->broken(*connection.queue, connected);
}

void RdmaConnections::break_off_all() {
  for (auto& [queue, connection] : connections_) break_off(connection, true);
}

void RdmaConnections::read_reports() {
  for (const RdmaReport& report : reports_.take()) {
    if (report.kind == RdmaReport::Kind::kRetired) {
      retire(*report.queue);
    } else if (const auto found = connections_.find(report.queue); found != connections_.end()) {
      break_off(found->second, true);
    }
  }
}

void RdmaConnections::retire(const RdmaQueue& queue) {
  std::unique_lock guard(mutex_);
  const auto node = connections_.extract(&queue);
  guard.unlock();
  Connection& connection = node.mapped();
  --connection.poller->queues_assigned;
  connection.queue.reset();
  rdma_destroy_id(connection.id);
}

void RdmaConnections::read_device_events() {
  for (const auto& entry : devices_.all()) {
    ibv_async_event event{};
    while (ibv_get_async_event(&entry->device->context(), &event) == 0) {
      on_device_event(event);
      ibv_ack_async_event(&event);
    }
  }
}

void RdmaConnections::on_device_event(ibv_async_event& event) {
  switch (event.event_type) {
    case IBV_EVENT_QP_LAST_WQE_REACHED:
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
      break;
    default:
      return;
  }
  const auto found = connections_.find(static_cast<const RdmaQueue*>(event.element.qp->qp_context));
  if (found == connections_.end()) return;
  Connection& connection = found->second;
  if (event.event_type == IBV_EVENT_COMM_EST) {
    // The host's first command overtook its "ready to use".
    static_cast<void>(rdma_notify(connection.id, IBV_EVENT_COMM_EST));
    return;
  }
  if (event.event_type == IBV_EVENT_QP_LAST_WQE_REACHED) connection.poller->last_receive(*connection.queue);
  break_off(connection, true);
}

RdmaConnections::Connection* RdmaConnections::find(const rdma_cm_id& id) {
  const auto found =
      std::ranges::find_if(connections_, [&](const auto& one) { return one.second.id == &id; });
  return found == connections_.end() ? nullptr : &found->second;
}

std::vector<RdmaQueueReport> RdmaConnections::report() const {
  const std::lock_guard guard(mutex_);
  std::vector<RdmaQueueReport> all;
  for (const auto& [queue, connection] : connections_)
    all.push_back({address_of(*connection.id), queue->qid(), queue->counters().totals()});
  return all;
}

}  // namespace uroce::nvmf
