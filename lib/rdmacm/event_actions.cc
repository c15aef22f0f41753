#include "rdmacm/event_actions.h"

#include <infiniband/ib.h>

#include <cerrno>

#include "rdmacm/connection.h"
#include "rdmacm/id.h"
#include "rdmacm/id_life.h"
#include "rdmacm/multicast.h"
#include "rdmacm/queue_pair.h"
#include "verbs/posting/wire_hint.h"

namespace uroce::rdmacm {
namespace {

Peer peer_of(const wire::CmReq& req) {
  return {.qp = req.qp,
          .psn = req.starting_psn,
          .reads_from_us = req.initiator_depth,
          .reads_to_it = req.responder_resources,
          .retry_count = req.retry_count,
          .rnr_retry_count = req.rnr_retry_count,
          .mtu = static_cast<PathMtu>(req.path_mtu),
          .ack_timeout = req.primary.ack_timeout};
}

ibv_qp_type type_of(const Request& request) {
  if (request.datagram) return IBV_QPT_UD;
  switch (request.req.transport) {
    case wire::CmTransport::kUc:
      return IBV_QPT_UC;
    case wire::CmTransport::kExtended:
      return IBV_QPT_XRC_RECV;
    default:
      return IBV_QPT_RC;
  }
}

/// The addresses of both ends of a request.
void name_ends(Id& child, const Id& listener, const Request& request) {
  if (request.by_gid) {
    child.ib_space = listener.ib_space;
    child.local = {.family = AF_IB, .address = request.way.local, .port = request.port};
    child.local.ib = listener.local.ib;
    child.local.ib.scope = 0;
    child.remote = {.family = AF_IB, .address = request.way.remote};
    child.remote.ib.partition_key = child.local.ib.partition_key;
    return;
  }
  const sa_family_t family = request.header.ipv4 ? AF_INET : AF_INET6;
  // Of this host to itself: at the loopback address, if that is the one that was asked for.
  const bool to_loopback =
      request.way.local == request.way.remote && request.header.destination.is_loopback();
  child.local = {family, to_loopback ? request.header.destination : request.way.local, request.port};
  child.remote = {family, request.header.source, request.header.source_port};
}

/// The id for a request that came to `listener`. Null: there is no memory, or the peer waits no more.
Id* make_child(Id& listener, const Request& request) {
  Id* const child = make_id(listener.synchronous() ? nullptr : listener.channel, listener.context,
                            listener.ps, type_of(request));
  if (child == nullptr) return nullptr;
  name_ends(*child, listener, request);
  child->comm = request.comm;
  child->way = request.way;
  child->state = IdState::kRequested;
  child->type_of_service = listener.type_of_service;
  child->remote_ece = request.ece;
  if (!request.datagram) {
    child->peer = peer_of(request.req);
    set_depths(*child, child->peer.reads_to_it, child->peer.reads_from_us);
  }
  attach(*child, *request.device);
  show_path(*child);
  int error = 0;
  const int managed = request.device->manage([&](engine::Gsi& services, Instant) {
    error = services.agent().take_request(request.comm, child->handle);
  });
  if (managed == 0 && error == 0) return child;
  destroy_id(*child);
  return nullptr;
}

bool carry_out_request(Event& event) {
  Id& listener = *event.owner;
  const std::unique_ptr<Request> request = std::move(event.request);
  Id* const child = make_child(listener, *request);
  if (child == nullptr) {
    static_cast<void>(request->device->manage(
        [&](engine::Gsi& services, Instant) { services.agent().release(request->comm); }));
    return false;
  }
  event.listen_id = &listener;
  event.id = child;
  return true;
}

/// The peer accepts.
bool carry_out_response(Event& event) {
  Id& id = *event.owner;
  if (id.qp == nullptr) return true;
  int error = make_ready(id);
  if (error == 0) error = establish(id);
  event.event = error == 0 ? RDMA_CM_EVENT_ESTABLISHED : RDMA_CM_EVENT_CONNECT_ERROR;
  event.status = -error;
  if (error != 0) abandon(id);
  return true;
}

}  // namespace

bool carry_out(Event& event) {
  switch (event.event) {
    case RDMA_CM_EVENT_CONNECT_REQUEST:
      return carry_out_request(event);
    case RDMA_CM_EVENT_CONNECT_RESPONSE:
      return carry_out_response(event);
    case RDMA_CM_EVENT_REJECTED:
      if (event.status == static_cast<int>(wire::RejectReason::kInvalidServiceId) &&
          event.owner->verbs != nullptr)
        verbs::hint_at_wire(*event.owner->verbs->device, "no program listens there");
      break_off(*event.owner);
      return true;
    case RDMA_CM_EVENT_MULTICAST_JOIN:
      return carry_out_join(event);
    default:
      return true;
  }
}

}  // namespace uroce::rdmacm
