#include "rdmacm/id_life.h"

#include <arpa/inet.h>

#include <cerrno>
#include <cstring>
#include <mutex>
#include <optional>

#include "rdmacm/core.h"
#include "rdmacm/id_events.h"
#include "rdmacm/multicast.h"
#include "verbs/calls/call_guard.h"
#include "verbs/calls/export.h"

namespace uroce::rdmacm {
namespace {

/// The type of a port space's queue pairs, for rdma_create_id.
std::optional<ibv_qp_type> type_of(rdma_port_space space) {
  switch (space) {
    case RDMA_PS_TCP:
    case RDMA_PS_IB:
      return IBV_QPT_RC;
    case RDMA_PS_UDP:
    case RDMA_PS_IPOIB:
      return IBV_QPT_UD;
  }
  return std::nullopt;
}

/// No event comes to the id any more, and what the agent has of it is ended.
void leave_agents(Id& id) {
  end_listening(id);
  if (id.device == nullptr) return;
  static_cast<void>(id.device->manage([&](engine::Gsi& services, Instant) {
    services.forget(id.handle);
    services.agent().release(id.comm);
  }));
}

void release_requests(const std::vector<std::unique_ptr<Event>>& events) {
  for (const auto& event : events) {
    if (event->request == nullptr) continue;
    static_cast<void>(event->request->device->manage(
        [&](engine::Gsi& services, Instant) { services.agent().release(event->request->comm); }));
  }
}

int migrate(Id& id, rdma_event_channel* channel) {
  std::unique_ptr<Channel> own;
  if (channel == nullptr) {
    own.reset(make_channel());
    if (own == nullptr) return errno;
    channel = own.get();
  }
  drop_last_event(id);
  const std::lock_guard guard(core().mutex);
  std::vector<std::unique_ptr<Event>> waiting = take_events(id);
  id.channel = channel;
  put_back(id, std::move(waiting));
  std::swap(id.own_channel, own);
  return 0;
}

}  // namespace

void show_path(Id& id) {
  rdma_ib_addr& face = id.route.addr.addr.ibaddr;
  std::memcpy(face.sgid.raw, id.way.local.bytes.data(), sizeof(face.sgid));
  std::memcpy(face.dgid.raw, id.way.remote.bytes.data(), sizeof(face.dgid));
  face.pkey = htons(0xFFFF);
  id.path = {};
  id.path.sgid = face.sgid;
  id.path.dgid = face.dgid;
  id.path.pkey = face.pkey;
  id.path.flow_label = htonl(id.way.flow_label);
  id.path.hop_limit = id.way.hop_limit;
  id.path.traffic_class = id.way.traffic_class;
  id.path.sl = id.way.service_level;
  id.path.reversible = 1;
  id.path.numb_path = 1;
  id.path.mtu_selector = 2;  // exactly
  id.path.mtu = static_cast<uint8_t>(id.device->device().path_mtu_max());
  id.route.path_rec = &id.path;
  id.route.num_paths = 1;
}

Id* make_id(rdma_event_channel* channel, void* context, rdma_port_space space, ibv_qp_type type) {
  auto id = std::make_unique<Id>();
  if (channel == nullptr) {
    id->own_channel.reset(make_channel());
    if (id->own_channel == nullptr) return nullptr;
    channel = id->own_channel.get();
  }
  id->channel = channel;
  id->context = context;
  id->ps = space;
  id->qp_type = type;
  const std::lock_guard guard(core().mutex);
  id->psn = Psn(static_cast<uint32_t>(core().random.next()));
  id->handle = core().next_handle++;
  core().ids.emplace(id->handle, id.get());
  return id.release();
}

void destroy_id(Id& id) {
  drop_last_event(id);
  std::vector<std::unique_ptr<Event>> unread;
  bool has_port = false;
  {
    const std::lock_guard guard(core().mutex);
    core().ids.erase(id.handle);
    has_port = id.has_port;
    unread = take_events(id);
  }
  release_requests(unread);
  leave_agents(id);
  {
    std::unique_lock lock(core().mutex);
    core().acknowledged.wait(lock, [&] { return id.unacknowledged == 0; });
  }
  if (has_port) ports().release(id.handle);
  leave_groups(id);
  delete &id;
}

}  // namespace uroce::rdmacm

using namespace uroce::rdmacm;

extern "C" {

UROCE_EXPORT int uroce_rdma_create_id(rdma_event_channel* channel, rdma_cm_id** face, void* context,
                                      rdma_port_space space) {
  return returned(uroce::verbs::zero_or_errno([&] {
    const auto type = type_of(space);
    if (!type) return EPROTONOSUPPORT;
    Id* const id = make_id(channel, context, space, *type);
    if (id == nullptr) return errno;
    *face = id;
    return 0;
  }));
}

UROCE_EXPORT int uroce_rdma_destroy_id(rdma_cm_id* id) {
  destroy_id(object(id));
  return 0;
}

UROCE_EXPORT int uroce_rdma_migrate_id(rdma_cm_id* id, rdma_event_channel* channel) {
  return returned(uroce::verbs::zero_or_errno([&] { return migrate(object(id), channel); }));
}

UROCE_EXPORT __be16 uroce_rdma_get_src_port(rdma_cm_id* id) { return htons(object(id).local.port); }

UROCE_EXPORT __be16 uroce_rdma_get_dst_port(rdma_cm_id* id) { return htons(object(id).remote.port); }

}  // extern "C"
