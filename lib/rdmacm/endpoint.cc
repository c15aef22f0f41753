// rdma_create_ep and what goes with it: an id with everything it needs, in one call.
#include <cerrno>
#include <memory>
#include <mutex>

#include "rdmacm/core.h"
#include "rdmacm/entry_points.h"
#include "rdmacm/id.h"
#include "rdmacm/id_events.h"
#include "rdmacm/id_life.h"
#include "verbs/calls/call_guard.h"
#include "verbs/calls/export.h"

namespace uroce::rdmacm {
namespace {

/// How long librdmacm waits for an address.
constexpr int kResolveMs = 2000;

int make_passive(Id& id, const rdma_addrinfo& info, ibv_pd* pd, const ibv_qp_init_attr* wanted) {
  if (uroce_rdma_bind_addr(&id, info.ai_src_addr) != 0) return errno;
  if (wanted == nullptr) return 0;
  id.endpoint_attributes = *wanted;
  id.endpoint_attributes->qp_type = static_cast<ibv_qp_type>(info.ai_qp_type);
  id.endpoint_domain = pd;
  return 0;
}

int make_active(Id& id, const rdma_addrinfo& info, ibv_pd* pd, ibv_qp_init_attr* wanted) {
  sockaddr* const source = info.ai_src_len != 0 ? info.ai_src_addr : nullptr;
  if (uroce_rdma_resolve_addr(&id, source, info.ai_dst_addr, kResolveMs) != 0) return errno;
  if (uroce_rdma_resolve_route(&id, kResolveMs) != 0) return errno;
  if (info.ai_connect_len != 0)
    id.connect_data.assign(static_cast<const char*>(info.ai_connect), info.ai_connect_len);
  if (wanted == nullptr) return 0;
  wanted->qp_type = static_cast<ibv_qp_type>(info.ai_qp_type);
  return uroce_rdma_create_qp(&id, pd, wanted) == 0 ? 0 : errno;
}

int create_endpoint(rdma_cm_id*& face, const rdma_addrinfo& info, ibv_pd* pd, ibv_qp_init_attr* wanted) {
  Id* const id = make_id(nullptr, nullptr, static_cast<rdma_port_space>(info.ai_port_space),
                         static_cast<ibv_qp_type>(info.ai_qp_type));
  if (id == nullptr) return errno;
  const int error = (info.ai_flags & RAI_PASSIVE) != 0 ? make_passive(*id, info, pd, wanted)
                                                       : make_active(*id, info, pd, wanted);
  if (error != 0) {
    destroy_id(*id);
    return error;
  }
  face = id;
  return 0;
}

/// The id of the next request, which is its event, too.
int get_request(Id& listener, rdma_cm_id*& face) {
  if (!listener.synchronous() || listener.state != IdState::kListening) return EINVAL;
  if (const int error = wait_if_synchronous(listener); error != 0) return error;
  if (listener.event->event != RDMA_CM_EVENT_CONNECT_REQUEST) return EINVAL;
  Id& child = object(listener.event->id);
  if (listener.endpoint_attributes) {
    ibv_qp_init_attr wanted = *listener.endpoint_attributes;
    if (uroce_rdma_create_qp(&child, listener.endpoint_domain, &wanted) != 0) {
      const int error = errno;
      static_cast<void>(uroce_rdma_reject(&child, nullptr, 0));
      destroy_id(child);
      drop_last_event(listener);
      return error;
    }
  }
  // Programs look for the request's private data there.
  child.event = std::exchange(listener.event, nullptr);
  face = &child;
  return 0;
}

}  // namespace
}  // namespace uroce::rdmacm

using namespace uroce::rdmacm;
using uroce::verbs::zero_or_errno;

extern "C" {

UROCE_EXPORT int uroce_rdma_create_ep(rdma_cm_id** id, rdma_addrinfo* info, ibv_pd* pd,
                                      ibv_qp_init_attr* wanted) {
  return returned(zero_or_errno([&] { return create_endpoint(*id, *info, pd, wanted); }));
}

UROCE_EXPORT void uroce_rdma_destroy_ep(rdma_cm_id* face) {
  if (face->qp != nullptr) uroce_rdma_destroy_qp(face);
  if (face->srq != nullptr) uroce_rdma_destroy_srq(face);
  static_cast<void>(uroce_rdma_destroy_id(face));
}

UROCE_EXPORT int uroce_rdma_get_request(rdma_cm_id* listener, rdma_cm_id** id) {
  return returned(zero_or_errno([&] { return get_request(object(listener), *id); }));
}

}  // extern "C"
