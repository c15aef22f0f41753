#include "nvmf/rdma/connections.h"

#include <algorithm>
#include <optional>
#include <variant>

#include "base/values/printable.h"

namespace uroce::nvmf {
namespace {

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

// Ids and queue pairs carry the number of their connection. A listener has none.
RdmaQueue::Number number_of(const void* context) { return reinterpret_cast<uintptr_t>(context); }

std::string hexadecimal(StatusCode code) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  const auto value = static_cast<uint32_t>(code);
  std::string text = "0x";
  for (int shift = 8; shift >= 0; shift -= 4) text += kDigits[value >> shift & 0xF];
  return text;
}

}  // namespace

RdmaConnections::RdmaConnections(Target& target, const RdmaOptions& options,
                                 std::shared_ptr<RdmaRegions> regions)
    : options_(options), events_(options_.log), admission_(options_), devices_(options_, std::move(regions)) {
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

void RdmaConnections::record(RdmaEvent event, const Connection& connection, std::string_view more) {
  events_.record(event,
                 {.host = connection.host.text(),
                  .queue = connection.qid,
                  .host_nqn = connection.host_nqn,
                  .more = std::string(more)},
                 options_.clock());
}

void RdmaConnections::on_cm_event(const CmEvent& event) {
  if (event.type == RDMA_CM_EVENT_CONNECT_REQUEST) return on_request(event);
  const Number number = number_of(event.id->context);
  Connection* connection = find(number);
  if (connection == nullptr) return;
  switch (event.type) {
    case RDMA_CM_EVENT_ESTABLISHED:
      admission_.established(number);
      return record(RdmaEvent::kEstablished, *connection);
    case RDMA_CM_EVENT_CONNECT_ERROR:
    case RDMA_CM_EVENT_UNREACHABLE:
    case RDMA_CM_EVENT_REJECTED:
    case RDMA_CM_EVENT_DISCONNECTED:
      return end(number, RdmaEvent::kEndedByHost);
    case RDMA_CM_EVENT_DEVICE_REMOVAL:
      return end(number, RdmaEvent::kEndedDevice);
    default:
      // The end of timewait does not matter here.
      return;
  }
}

void RdmaConnections::on_request(const CmEvent& event) {
  const RdmaAddress host = peer_address(*event.id);
  events_.record(RdmaEvent::kRequested, {}, options_.clock());
  const std::optional<Refusal> why = admit(event, host);
  if (!why) return;
  events_.record(why->event,
                 {.host = host.text(), .more = " status " + std::to_string(static_cast<int>(why->status))},
                 options_.clock());
  refuse(*event.id, why->status);
  rdma_destroy_id(event.id);
}

std::optional<RdmaConnections::Refusal> RdmaConnections::admit(const CmEvent& event,
                                                               const RdmaAddress& host) {
  constexpr Refusal kNoResources{RdmaEvent::kRefusedResources, RdmaRefusal::kNoResources};
  const auto checked = check_request({event.private_data.data(), event.param.private_data_len},
                                     {.admin_entries_max = RdmaOptions::kAdminEntriesMax,
                                      .io_entries_max = options_.io_entries_max,
                                      .qid_max = options_.qid_max});
  if (const auto* why = std::get_if<RdmaRefusal>(&checked)) return Refusal{RdmaEvent::kRefusedFormat, *why};
  if (event.param.initiator_depth == 0) return Refusal{RdmaEvent::kRefusedFormat, RdmaRefusal::kInboundReads};
  if (const auto full = admission_.refusal(host)) return Refusal{*full, RdmaRefusal::kNoResources};
  const auto entry = devices_.find(*event.id->verbs, pollers_);
  if (!entry) return kNoResources;
  const auto least =
      std::ranges::min_element(pollers_, {}, [](const auto& one) { return one->queues_assigned; });
  RdmaShare& share = *(*entry)->shares[static_cast<size_t>(least - pollers_.begin())];
  const ibv_device_attr& device = share.device().attributes();
  const int device_reads = std::max(device.max_qp_init_rd_atom, 1);
  const RdmaQueue::Setup setup{
      .number = ++last_number_,
      .host = host,
      .request = std::get<RdmaQueueRequest>(checked),
      .reads_max = static_cast<uint8_t>(std::min<int>(event.param.initiator_depth, device_reads))};
  auto queue = RdmaQueue::make(share, *event.id, setup, options_);
  if (!queue) return kNoResources;

  if (const auto oldest = admission_.to_replace(host)) end(*oldest, RdmaEvent::kEndedReplaced);
  admission_.add(setup.number, host, options_.clock());
  event.id->context = reinterpret_cast<void*>(setup.number);
  {
    const std::lock_guard guard(mutex_);
    connections_[setup.number] = {event.id, least->get(), host, setup.request.qid, (*queue)->counters()};
  }
  // Before the host knows: its first command finds the queue.
  (*least)->add(std::move(*queue));
  // The id goes with the connection now, also when it cannot be accepted.
  if (!accept(setup, device, event)) end(setup.number, RdmaEvent::kEndedAccept);
  return std::nullopt;
}

bool RdmaConnections::accept(const RdmaQueue::Setup& setup, const ibv_device_attr& device,
                             const CmEvent& event) {
  RdmaAcceptData data{};
  data.controller_receive_size = static_cast<uint16_t>(setup.request.entries);
  rdma_conn_param param{};
  param.private_data = &data;
  param.private_data_len = sizeof(data);
  // The host reads nothing of us, but may ask to.
  param.responder_resources =
      static_cast<uint8_t>(std::min<int>(event.param.responder_resources, device.max_qp_rd_atom));
  param.initiator_depth = setup.reads_max;
  param.flow_control = 1;
  param.rnr_retry_count = 7;
  if (rdma_accept(event.id, &param) != 0) return false;
  events_.record(RdmaEvent::kAccepted, {}, options_.clock());
  return true;
}

void RdmaConnections::end(Number number, RdmaEvent why) {
  Connection& connection = *find(number);
  if (connection.ending) return;
  connection.ending = why;
  admission_.ending(number);
  // The queue pair may be in the error state already, and the host gone: both are no error here.
  static_cast<void>(rdma_disconnect(connection.id));
  put_into_error_state(*connection.id->qp);
  connection.poller->close(number);
}

void RdmaConnections::end_all() {
  for (auto& [number, connection] : connections_) end(number, RdmaEvent::kEndedStopping);
}

void RdmaConnections::watch() {
  for (const RdmaAdmission::Late& late : admission_.late(options_.clock())) end(late.connection, late.why);
}

void RdmaConnections::read_reports() {
  for (RdmaReport& report : reports_.take()) on_report(report);
}

void RdmaConnections::on_report(RdmaReport& report) {
  Connection& connection = *find(report.number);
  switch (report.kind) {
    case RdmaReport::Kind::kConnect:
      return on_connect(report.number, connection, report.outcome);
    case RdmaReport::Kind::kWantsEnd:
      return end(report.number, report.why);
    case RdmaReport::Kind::kQuiet:
      record(*connection.ending, connection);
      rdma_destroy_qp(connection.id);
      return connection.poller->detach(report.number);
    case RdmaReport::Kind::kRetired:
      return retire(std::move(report.queue));
  }
}

void RdmaConnections::on_connect(Number number, Connection& connection, const ConnectOutcome& outcome) {
  {
    const std::lock_guard guard(mutex_);
    connection.host_nqn = outcome.host_nqn;
  }
  const std::string where = " subsystem " + outcome.subsystem_nqn;
  if (!outcome.status.ok())
    return record(RdmaEvent::kConnectRefused, connection,
                  where + " status " + hexadecimal(outcome.status.code));
  admission_.connected(number, outcome.discovery);
  record(RdmaEvent::kConnected, connection, where);
}

void RdmaConnections::retire(std::unique_ptr<RdmaQueue> queue) {
  std::unique_lock guard(mutex_);
  const auto node = connections_.extract(queue->number());
  guard.unlock();
  admission_.remove(queue->number());
  --node.mapped().poller->queues_assigned;
  queue.reset();
  rdma_destroy_id(node.mapped().id);
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
  const Number number = number_of(event.element.qp->qp_context);
  Connection* connection = find(number);
  if (connection == nullptr) return;
  if (event.event_type == IBV_EVENT_COMM_EST) {
    // The host's first command overtook its "ready to use".
    static_cast<void>(rdma_notify(connection->id, IBV_EVENT_COMM_EST));
    return;
  }
  if (event.event_type != IBV_EVENT_QP_LAST_WQE_REACHED) return end(number, RdmaEvent::kEndedDevice);
  connection->poller->last_receive(number);
  end(number, RdmaEvent::kEndedTransport);
}

RdmaConnections::Connection* RdmaConnections::find(Number number) {
  const auto found = connections_.find(number);
  return found == connections_.end() ? nullptr : &found->second;
}

std::vector<RdmaQueueReport> RdmaConnections::report() const {
  const std::lock_guard guard(mutex_);
  std::vector<RdmaQueueReport> all;
  for (const auto& [number, connection] : connections_)
    all.push_back({connection.host.text(), printable(connection.host_nqn), connection.qid,
                   connection.counters->totals()});
  return all;
}

}  // namespace uroce::nvmf
