// What pollers tell: the communication manager's events and found addresses, as events of ids.
//
// Decision: a request that ends before the program has seen it leaves the channel. Otherwise peers could fill
// it by REQs and REJs. Cost: a walk over the listener's unread events.
//
// Decision: the READ depths of a REP bind the client, even to more than it asked for, as in Linux. Cost: a
// server that demands too much gets a remote invalid request error.
#include <infiniband/ib.h>

#include <cerrno>
#include <cstring>
#include <mutex>

#include "rdmacm/core.h"
#include "rdmacm/id.h"
#include "rdmacm/id_events.h"

namespace uroce::rdmacm {
namespace {

/// What REQ and REP have in common.
template <typename Message>
rdma_conn_param describe(const Message& message, QpNumber queue_pair) {
  rdma_conn_param param{};
  // What the peer will send is what is asked of us, and the other way round (rdma_get_cm_event(3)).
  param.responder_resources = message.initiator_depth;
  param.initiator_depth = message.responder_resources;
  param.flow_control = message.flow_control ? 1 : 0;
  param.rnr_retry_count = message.rnr_retry_count;
  param.srq = message.srq ? 1 : 0;
  param.qp_num = queue_pair.value;
  return param;
}

std::unique_ptr<Event> on_reply(Id& id, const cm::Event& event) {
  const auto& rep = std::get<wire::CmRep>(event.mad->message);
  id.state = IdState::kReplied;
  id.way.link = event.address.link;
  id.peer.qp = cm::queue_pair_of(rep);
  id.peer.psn = rep.starting_psn;
  // What the server grants holds, less or more than what was asked for, as in Linux.
  set_depths(id, rep.responder_resources, rep.initiator_depth);
  if (!id.ack_timeout)
    id.peer.ack_timeout =
        cm::ack_timeout(static_cast<uint8_t>(id.peer.ack_timeout - 1), rep.target_ack_delay);
  id.peer.rnr_retry_count = rep.rnr_retry_count;
  id.remote_ece = {.vendor_id = rep.vendor_id, .options = event.mad->ece_options, .comp_mask = 0};
  auto made = make_event(RDMA_CM_EVENT_CONNECT_RESPONSE);
  made->param.conn = describe(rep, id.peer.qp);
  made->keep_connection_data(rep.private_data);
  return made;
}

std::unique_ptr<Event> on_refusal(Id& id, const cm::Event& event) {
  const auto& rej = std::get<wire::CmRej>(event.mad->message);
  id.state = IdState::kDisconnected;
  auto made = make_event(RDMA_CM_EVENT_REJECTED, static_cast<int>(rej.reason));
  made->keep_connection_data(rej.private_data);
  return made;
}

std::unique_ptr<Event> on_service_reply(Id& id, const cm::Event& event) {
  const auto& rep = std::get<wire::CmSidrRep>(event.mad->message);
  const bool found = rep.status == wire::SidrStatus::kSuccess;
  id.state = found ? IdState::kConnected : IdState::kDisconnected;
  auto made =
      make_event(found ? RDMA_CM_EVENT_ESTABLISHED : RDMA_CM_EVENT_UNREACHABLE, static_cast<int>(rep.status));
  made->keep_datagram_data(rep.private_data);
  if (!found) return made;
  made->param.ud.qp_num = rep.qp.value;
  made->param.ud.qkey = rep.qkey;
  made->param.ud.ah_attr = address_vector(id, id.way);
  return made;
}

std::unique_ptr<Event> on_end(Id& id, rdma_cm_event_type type, int status) {
  id.state = IdState::kDisconnected;
  return make_event(type, status);
}

}  // namespace

void CmDevice::on_event(const cm::Event& event) {
  switch (event.kind) {
    case cm::EventKind::kRequest:
      return on_request(event);
    case cm::EventKind::kServiceRequest:
      return on_service_request(event);
    default:
      return on_progress(event);
  }
}

/// To the listener's program, if there is one.
bool CmDevice::offer(uint64_t handle, std::unique_ptr<Request> request, std::unique_ptr<Event> event) {
  const std::lock_guard guard(core().mutex);
  Id* const listener = core().find(handle);
  if (listener == nullptr) return false;
  request->device = this;
  request->port = listener->local.port;
  event->request = std::move(request);
  post(*listener, std::move(event));
  return true;
}

bool CmDevice::read_header(const cm::Event& event, std::span<const std::byte> private_data,
                           Request& request) {
  request.comm = event.id;
  request.way = event.address;
  {
    const std::lock_guard guard(core().mutex);
    const Id* const listener = core().find(event.consumer);
    request.by_gid = listener != nullptr && listener->local.family == AF_IB;
  }
  if (request.by_gid) return true;
  const auto header = wire::parse_ip_cm(private_data);
  if (!header || header->ipv4 != event.address.remote.is_ipv4()) return false;
  request.header = *header;
  return true;
}

void CmDevice::on_request(const cm::Event& event) {
  const auto& req = std::get<wire::CmReq>(event.mad->message);
  const auto refuse = [&](wire::RejectReason reason, const cm::RejectInformation& information = {}) {
    static_cast<void>(services_->agent().reject(event.id, reason, {}, information));
    services_->agent().release(event.id);
  };
  auto request = std::make_unique<Request>();
  if (!read_header(event, req.private_data, *request)) return refuse(wire::RejectReason::kConsumerDefined);
  if (req.path_mtu < static_cast<uint8_t>(PathMtu::k256) ||
      req.path_mtu > static_cast<uint8_t>(device_.path_mtu_max()))
    return refuse(wire::RejectReason::kInvalidMtu, cm::information_of_mtu(device_.path_mtu_max()));
  request->req = req;
  request->ece = {.vendor_id = req.vendor_id, .options = event.mad->ece_options, .comp_mask = 0};
  auto made = make_event(RDMA_CM_EVENT_CONNECT_REQUEST);
  made->param.conn = describe(req, req.qp);
  made->param.conn.retry_count = req.retry_count;
  made->keep_connection_data(std::span(req.private_data).subspan(request->by_gid ? 0 : wire::kIpCmBytes));
  if (!offer(event.consumer, std::move(request), std::move(made)))
    refuse(wire::RejectReason::kInvalidServiceId);
}

void CmDevice::on_service_request(const cm::Event& event) {
  const auto& req = std::get<wire::CmSidrReq>(event.mad->message);
  auto request = std::make_unique<Request>();
  if (!read_header(event, req.private_data, *request)) return services_->agent().release(event.id);
  request->datagram = true;
  auto made = make_event(RDMA_CM_EVENT_CONNECT_REQUEST);
  made->keep_datagram_data(std::span(req.private_data).subspan(request->by_gid ? 0 : wire::kIpCmBytes));
  if (!offer(event.consumer, std::move(request), std::move(made))) services_->agent().release(event.id);
}

/// What becomes of a connection; of a request that the program has not seen, only that it is over: then it is
/// taken out of the channel again, so that peers cannot fill that with what is none any more.
void CmDevice::on_progress(const cm::Event& event) {
  std::unique_lock lock(core().mutex);
  Id* const id = core().find(event.consumer);
  if (id == nullptr) return;
  if (id->state == IdState::kListening) {
    const auto unseen = take_events(*id, [&](const Event& waiting) {
      return waiting.request != nullptr && waiting.request->device == this &&
             waiting.request->comm == event.id;
    });
    lock.unlock();
    // The thread that is about to take it ends it then.
    if (!unseen.empty()) services_->agent().release(event.id);
    return;
  }
  std::unique_ptr<Event> made;
  switch (event.kind) {
    case cm::EventKind::kReply:
      made = on_reply(*id, event);
      break;
    case cm::EventKind::kEstablished:
      id->state = IdState::kConnected;
      made = make_event(RDMA_CM_EVENT_ESTABLISHED);
      break;
    case cm::EventKind::kRejected:
      made = on_refusal(*id, event);
      break;
    case cm::EventKind::kUnanswered:
      made = on_end(*id, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT);
      break;
    case cm::EventKind::kDisconnected:
      made = on_end(*id, RDMA_CM_EVENT_DISCONNECTED, 0);
      break;
    case cm::EventKind::kTimewaitEnded:
      made = make_event(RDMA_CM_EVENT_TIMEWAIT_EXIT);
      break;
    case cm::EventKind::kServiceReply:
      made = on_service_reply(*id, event);
      break;
    case cm::EventKind::kRequest:
    case cm::EventKind::kServiceRequest:
      return;
  }
  post(*id, std::move(made));
}

void CmDevice::on_resolved(uint64_t resolver, int error) {
  const std::lock_guard guard(core().mutex);
  Id* const id = core().find(resolver);
  if (id == nullptr || id->state != IdState::kAddressQuery) return;
  id->state = error == 0 ? IdState::kAddressResolved : IdState::kBound;
  post(*id, make_event(error == 0 ? RDMA_CM_EVENT_ADDR_RESOLVED : RDMA_CM_EVENT_ADDR_ERROR, -error));
}

/// The device is gone for good: the ids that are bound to it are told.
void CmDevice::raised(engine::DeviceEvent event) {
  if (event != engine::DeviceEvent::kFatal) return;
  const std::lock_guard guard(core().mutex);
  for (const auto& [handle, id] : core().ids) {
    if (id->device == this) post(*id, make_event(RDMA_CM_EVENT_DEVICE_REMOVAL));
  }
}

}  // namespace uroce::rdmacm
