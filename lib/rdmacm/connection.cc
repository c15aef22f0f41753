// Decision: explicit READ depths of rdma_accept hold within the device's limits. RDMA_MAX_INIT_DEPTH,
// RDMA_MAX_RESP_RES and no parameters mean the least of REQ and device.
//
// Decision: rdma_disconnect of a connection that is over returns 0, as in Linux. An id that was never
// connected, or is of UD, gets EINVAL.
//
// Decision: a `qp_num` of another live program of the service is EINVAL. The service would drop the message,
// and the caller wait in vain. Cost: no daemon can connect for other programs.
#include "rdmacm/connection.h"

#include <infiniband/ib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>

#include "host/shared_device.h"
#include "rdmacm/core.h"
#include "rdmacm/id_events.h"
#include "rdmacm/queue_pair.h"
#include "verbs/calls/call_guard.h"
#include "verbs/calls/export.h"

namespace uroce::rdmacm {
namespace {

// As Linux's rdma_cm asks: 4.3 s for each answer, and 15 times again.
constexpr uint8_t kResponseTimeout = 20;
constexpr uint8_t kRetries = 15;
// How long packets live on a RoCE path, for Linux's rdma_cm as well: 0.27 s.
constexpr uint8_t kPacketLifeTime = 16;
constexpr uint8_t kAckTimeout = cm::ack_timeout(kPacketLifeTime, engine::Limits::kAckDelay);
constexpr uint8_t kRetryCount = 7;
constexpr uint16_t kNoLid = 0xFFFF;
constexpr uint8_t kExtendedXrc = 1;

std::span<const std::byte> bytes_of(const void* data, size_t length) {
  return {static_cast<const std::byte*>(data), data != nullptr ? length : 0};
}

/// What the program says, or what stands for it when it says nothing (rdma_connect(3), rdma_accept(3)).
struct RequestedParameters {
  std::span<const std::byte> private_data;
  uint8_t flow_control = 1;
  uint8_t retry_count = kRetryCount;
  uint8_t rnr_retry_count = kRetryCount;
  bool srq = false;
  QpNumber qp;
};

RequestedParameters requested_parameters(const Id& id, const rdma_conn_param* param) {
  RequestedParameters requested;
  if (param != nullptr) {
    requested.private_data = bytes_of(param->private_data, param->private_data_len);
    requested.flow_control = param->flow_control;
    requested.retry_count = std::min(param->retry_count, kRetryCount);
    requested.rnr_retry_count = std::min(param->rnr_retry_count, kRetryCount);
    requested.srq = param->srq != 0;
    requested.qp = {param->qp_num & QpNumber::kMask};
  } else if (!id.connect_data.empty()) {
    requested.private_data = bytes_of(id.connect_data.data(), id.connect_data.size());
  }
  if (id.qp == nullptr) return requested;
  requested.qp = {id.qp->qp_num};
  requested.srq = id.qp->srq != nullptr;
  return requested;
}

/// Whether the program may name the queue pair to its peer: not that of another program with which a service
/// has it share the device. The service would drop the message, and nothing would ever answer. A number of no
/// program does no harm: what the peer sends to it is dropped, as on hardware.
bool may_name(const Id& id, QpNumber number) {
  const engine::Device& device = id.device->device();
  if (number == QpNumber{} || device.numbers().contains(number)) return true;
  host::SharedDevice* const shared = device.shared_device();
  return shared == nullptr || !shared->is_anothers(number);
}

/// The READs of both directions that the program asks for or grants; `depth` and `resources` where it leaves
/// that open, by RDMA_MAX_INIT_DEPTH and RDMA_MAX_RESP_RES or without parameters.
void take_depths(Id& id, const rdma_conn_param* param, uint8_t depth, uint8_t resources) {
  if (param != nullptr && param->initiator_depth != RDMA_MAX_INIT_DEPTH) depth = param->initiator_depth;
  if (param != nullptr && param->responder_resources != RDMA_MAX_RESP_RES)
    resources = param->responder_resources;
  set_depths(id, depth, resources);
}

/// False: there is more private data than fits. With AF_IB all of it is the program's.
template <size_t N>
bool write_private(const Id& id, std::span<const std::byte> data, wire::PrivateData<N>& to) {
  if (id.local.family == AF_IB) {
    if (data.size() > N) return false;
    std::ranges::copy(data, to.begin());
    return true;
  }
  if (data.size() > N - wire::kIpCmBytes) return false;
  wire::write_ip_cm(to.data(), {.ipv4 = id.local.family == AF_INET,
                                .source_port = id.local.port,
                                .source = id.local.address,
                                .destination = id.remote.address});
  std::ranges::copy(data, to.begin() + wire::kIpCmBytes);
  return true;
}

wire::CmReq describe_request(const Id& id, const RequestedParameters& requested) {
  wire::CmReq req;
  req.vendor_id = id.local_ece.vendor_id & 0xFFFFFF;
  req.service = id.remote_service();
  req.ca_guid = id.device->device().guid();
  req.qp = requested.qp;
  req.responder_resources = id.responder_resources;
  req.initiator_depth = id.initiator_depth;
  req.remote_cm_response_timeout = kResponseTimeout;
  req.local_cm_response_timeout = kResponseTimeout;
  req.transport = id.qp_type == IBV_QPT_UC         ? wire::CmTransport::kUc
                  : id.qp_type == IBV_QPT_XRC_SEND ? wire::CmTransport::kExtended
                                                   : wire::CmTransport::kRc;
  req.extended_transport = id.qp_type == IBV_QPT_XRC_SEND ? kExtendedXrc : uint8_t{0};
  req.flow_control = requested.flow_control != 0;
  req.starting_psn = id.psn;
  req.retry_count = requested.retry_count;
  req.rnr_retry_count = requested.rnr_retry_count;
  req.path_mtu = static_cast<uint8_t>(id.peer.mtu);
  req.max_cm_retries = kRetries;
  req.srq = requested.srq;
  req.primary = {.local_lid = kNoLid,
                 .remote_lid = kNoLid,
                 .local_gid = id.way.local,
                 .remote_gid = id.way.remote,
                 .flow_label = id.way.flow_label,
                 .traffic_class = id.way.traffic_class,
                 .hop_limit = id.way.hop_limit,
                 .service_level = id.way.service_level,
                 .ack_timeout = id.peer.ack_timeout};
  return req;
}

/// Begins with the agent: the id is connecting as soon as it has a number, because answers may come within
/// the same turn.
template <typename Start>
int begin_connecting(Id& id, Start start) {
  int error = 0;
  const int managed = id.device->manage([&](engine::Gsi& services, Instant) {
    const Result<cm::CommId> comm = start(services.agent());
    if (!comm) {
      error = comm.error().code;
      return;
    }
    const std::lock_guard guard(core().mutex);
    id.comm = *comm;
    id.state = IdState::kConnecting;
  });
  return managed != 0 ? managed : error;
}

int connect(Id& id, const rdma_conn_param* param) {
  if (id.state != IdState::kRouteResolved) return EINVAL;
  const RequestedParameters requested = requested_parameters(id, param);
  if (id.is_datagram()) {
    wire::CmSidrReq req{.service = id.remote_service()};
    if (!write_private(id, requested.private_data, req.private_data)) return EINVAL;
    return begin_connecting(id, [&](cm::Agent& agent) {
      return agent.resolve_service(id.way, req, cm::cm_time(kResponseTimeout), kRetries, id.handle);
    });
  }
  if (!may_name(id, requested.qp)) return EINVAL;
  take_depths(id, param, engine::Limits::kReadsSent, engine::Limits::kReadsAnswered);
  id.retry_count = requested.retry_count;
  id.peer.mtu = id.device->device().path_mtu_max();
  id.peer.ack_timeout = id.ack_timeout.value_or(kAckTimeout);
  wire::CmReq req = describe_request(id, requested);
  if (!write_private(id, requested.private_data, req.private_data)) return EINVAL;
  return begin_connecting(
      id, [&](cm::Agent& agent) { return agent.connect(id.way, req, id.handle, id.local_ece.options); });
}

/// 0 or errno; `change` is asked of the agent.
template <typename Change>
int ask_agent(Id& id, Change change) {
  if (id.device == nullptr || id.comm == cm::CommId{}) return EINVAL;
  int error = 0;
  const int managed =
      id.device->manage([&](engine::Gsi& services, Instant) { error = change(services.agent()); });
  return managed != 0 ? managed : error;
}

int accept_datagrams(Id& id, const RequestedParameters& requested) {
  wire::CmSidrRep rep{.qp = requested.qp, .service = id.local_service(), .qkey = id.datagram_qkey};
  if (requested.private_data.size() > rep.private_data.size()) return EINVAL;
  std::ranges::copy(requested.private_data, rep.private_data.begin());
  return ask_agent(id, [&](cm::Agent& agent) { return agent.answer_service(id.comm, rep); });
}

int accept(Id& id, const rdma_conn_param* param) {
  if (id.state != IdState::kRequested) return EINVAL;
  const RequestedParameters requested = requested_parameters(id, param);
  if (!may_name(id, requested.qp)) return EINVAL;
  if (id.is_datagram()) {
    const int error = accept_datagrams(id, requested);
    if (error == 0) id.state = IdState::kConnected;
    return error;
  }
  // What the program leaves open is what the peer offers: what that does not answer must not be asked.
  take_depths(id, param, id.peer.reads_to_it, id.peer.reads_from_us);
  id.retry_count = id.peer.retry_count;
  wire::CmRep rep;
  rep.qp = requested.qp;
  if (id.qp_type == IBV_QPT_XRC_RECV) {
    rep.qp = {};
    rep.local_eecn = requested.qp.value;
  }
  rep.starting_psn = id.psn;
  rep.vendor_id = id.local_ece.vendor_id & 0xFFFFFF;
  rep.responder_resources = id.responder_resources;
  rep.initiator_depth = id.initiator_depth;
  rep.target_ack_delay = engine::Limits::kAckDelay;
  rep.flow_control = requested.flow_control != 0;
  rep.rnr_retry_count = requested.rnr_retry_count;
  rep.srq = requested.srq;
  rep.ca_guid = id.device->device().guid();
  if (requested.private_data.size() > rep.private_data.size()) return EINVAL;
  std::ranges::copy(requested.private_data, rep.private_data.begin());
  if (id.qp != nullptr) {
    if (const int error = make_ready(id); error != 0) return error;
  }
  return ask_agent(id, [&](cm::Agent& agent) {
    const int error = agent.reply(id.comm, rep, id.handle, id.local_ece.options);
    const std::lock_guard guard(core().mutex);
    if (error == 0) id.state = IdState::kConnecting;
    return error;
  });
}

int reject(Id& id, std::span<const std::byte> data, wire::RejectReason reason) {
  if (id.is_datagram()) {
    wire::CmSidrRep rep{.status = wire::SidrStatus::kReject, .service = id.local_service()};
    if (data.size() > rep.private_data.size()) return EINVAL;
    std::ranges::copy(data, rep.private_data.begin());
    return ask_agent(id, [&](cm::Agent& agent) { return agent.answer_service(id.comm, rep); });
  }
  const int error = ask_agent(id, [&](cm::Agent& agent) { return agent.reject(id.comm, reason, data); });
  if (error == 0) break_off(id);
  return error;
}

IdState state_of(const Id& id) {
  const std::lock_guard guard(core().mutex);
  return id.state;
}

/// Posts the event of a disconnection that the agent will not raise.
int say_disconnected(Id& id) {
  const std::lock_guard guard(core().mutex);
  id.comm = {};
  id.state = IdState::kDisconnected;
  post(id, make_event(RDMA_CM_EVENT_DISCONNECTED));
  return 0;
}

/// One that has ended in whatever way is disconnected already, as Linux has it.
int disconnect(Id& id) {
  if (id.is_datagram()) return EINVAL;
  if (id.comm == cm::CommId{}) return id.state == IdState::kDisconnected ? 0 : EINVAL;
  break_off(id);
  return ask_agent(id, [&](cm::Agent& agent) {
    switch (agent.state_of(id.comm)) {
      case cm::State::kEstablished:
        return agent.disconnect(id.comm, {});
      case cm::State::kRepSent:
        agent.release(id.comm);
        return say_disconnected(id);
      default:
        return 0;
    }
  });
}

/// Whether a synchronous id has an event of its end to wait for: of one that ended before, only while that
/// has not been seen.
bool end_is_to_come(const Id& id, IdState before) {
  if (!id.synchronous()) return false;
  if (before == IdState::kConnected || before == IdState::kConnecting) return true;
  return id.own_channel->has_events();
}

}  // namespace

int establish(Id& id) {
  return ask_agent(id, [&](cm::Agent& agent) {
    const int error = agent.ready_to_use(id.comm, {});
    const std::lock_guard guard(core().mutex);
    if (error == 0) id.state = IdState::kConnected;
    return error;
  });
}

void abandon(Id& id) { static_cast<void>(reject(id, {}, wire::RejectReason::kConsumerDefined)); }

}  // namespace uroce::rdmacm

using namespace uroce::rdmacm;
using uroce::verbs::zero_or_errno;
using uroce::wire::RejectReason;

extern "C" {

UROCE_EXPORT int uroce_rdma_connect(rdma_cm_id* id, rdma_conn_param* param) {
  return returned(zero_or_errno([&] {
    const int error = connect(object(id), param);
    return error != 0 ? error : wait_if_synchronous(object(id));
  }));
}

UROCE_EXPORT int uroce_rdma_accept(rdma_cm_id* id, rdma_conn_param* param) {
  return returned(zero_or_errno([&] {
    const int error = accept(object(id), param);
    if (error != 0) return error;
    // Of a service that was found there is nothing more to hear.
    if (object(id).is_datagram()) return drop_last_event(object(id)), 0;
    return wait_if_synchronous(object(id));
  }));
}

UROCE_EXPORT int uroce_rdma_reject(rdma_cm_id* id, const void* data, uint8_t length) {
  return returned(zero_or_errno(
      [&] { return reject(object(id), bytes_of(data, length), RejectReason::kConsumerDefined); }));
}

UROCE_EXPORT int uroce_rdma_reject_ece(rdma_cm_id* id, const void* data, uint8_t length) {
  return returned(
      zero_or_errno([&] { return reject(object(id), bytes_of(data, length), RejectReason::kVendorOption); }));
}

UROCE_EXPORT int uroce_rdma_establish(rdma_cm_id* id) {
  return returned(zero_or_errno([&] {
    // With a queue pair rdma_get_cm_event has done it.
    return object(id).qp != nullptr ? EINVAL : establish(object(id));
  }));
}

UROCE_EXPORT int uroce_rdma_notify(rdma_cm_id* id, ibv_event_type event) {
  return returned(zero_or_errno([&] {
    if (event != IBV_EVENT_COMM_EST) return EINVAL;
    // What is established already has lost nothing.
    return ask_agent(object(id), [&](uroce::cm::Agent& agent) {
      const int error = agent.established(object(id).comm);
      return agent.state_of(object(id).comm) == uroce::cm::State::kEstablished ? 0 : error;
    });
  }));
}

UROCE_EXPORT int uroce_rdma_disconnect(rdma_cm_id* id) {
  return returned(zero_or_errno([&] {
    Id& its = object(id);
    const IdState before = state_of(its);
    const int error = disconnect(its);
    return error == 0 && end_is_to_come(its, before) ? wait_if_synchronous(its) : error;
  }));
}

}  // extern "C"
