#include "rdmacm/multicast.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>

#include "net/derived_mac.h"
#include "rdmacm/core.h"
#include "verbs/call_guard.h"
#include "verbs/entry_points.h"
#include "verbs/export.h"

namespace uroce::rdmacm {
namespace {

constexpr uint32_t kGroupQueuePair = 0xFFFFFF;

ibv_gid gid_of(const SocketAddress& address) {
  ibv_gid gid;
  std::memcpy(gid.raw, address.address.bytes.data(), sizeof(gid.raw));
  return gid;
}

/// Groups are there for whoever listens: nobody is asked, and the event comes at once.
int join(Id& id, const sockaddr* to, void* context, bool send_only) {
  const auto address = read_address(to);
  if (!address || !net::is_multicast(address->address)) return EINVAL;
  if (id.device == nullptr) return EINVAL;
  if (std::ranges::find(id.groups, address->address, [](const Group& g) { return g.address.address; }) !=
      id.groups.end())
    return EADDRINUSE;
  auto event = make_event(RDMA_CM_EVENT_MULTICAST_JOIN);
  event->param.ud.private_data = context;
  event->param.ud.ah_attr = address_vector(id, {.local = id.local.address, .remote = address->address});
  event->param.ud.qp_num = kGroupQueuePair;
  event->param.ud.qkey = id.datagram_qkey;
  id.groups.push_back({.address = *address, .gid = gid_of(*address), .send_only = send_only});
  const std::lock_guard guard(core().mutex);
  post(id, std::move(event));
  return 0;
}

int detach(const Id& id, Group& group) {
  if (!group.attached) return 0;
  group.attached = false;
  return uroce_ibv_detach_mcast(id.qp, &group.gid, 0);
}

int leave(Id& id, const sockaddr* to) {
  const auto address = read_address(to);
  if (!address) return EINVAL;
  const auto group =
      std::ranges::find(id.groups, address->address, [](const Group& g) { return g.address.address; });
  if (group == id.groups.end()) return EADDRNOTAVAIL;
  const int error = detach(id, *group);
  id.groups.erase(group);
  return error;
}

}  // namespace

bool carry_out_join(Event& event) {
  Id& id = *event.owner;
  const ibv_gid gid = event.param.ud.ah_attr.grh.dgid;
  const auto group = std::ranges::find_if(
      id.groups, [&](const Group& g) { return std::memcmp(g.gid.raw, gid.raw, sizeof(gid.raw)) == 0; });
  if (group == id.groups.end() || group->send_only || id.qp == nullptr) return true;
  if (const int error = uroce_ibv_attach_mcast(id.qp, &group->gid, 0); error != 0) {
    event.event = RDMA_CM_EVENT_MULTICAST_ERROR;
    event.status = -error;
    return true;
  }
  group->attached = true;
  return true;
}

void leave_groups_of_queue_pair(Id& id) {
  for (Group& group : id.groups) detach(id, group);
}

void leave_groups(Id& id) {
  if (id.qp != nullptr) leave_groups_of_queue_pair(id);
  id.groups.clear();
}

}  // namespace uroce::rdmacm

using namespace uroce::rdmacm;

extern "C" {

UROCE_EXPORT int uroce_rdma_join_multicast(rdma_cm_id* id, sockaddr* address, void* context) {
  return returned(uroce::verbs::zero_or_errno([&] { return join(object(id), address, context, false); }));
}

UROCE_EXPORT int uroce_rdma_join_multicast_ex(rdma_cm_id* id, rdma_cm_join_mc_attr_ex* wanted,
                                              void* context) {
  constexpr uint32_t kNeeded = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS;
  if (wanted->comp_mask != kNeeded)
    return returned(wanted->comp_mask >= RDMA_CM_JOIN_MC_ATTR_RESERVED ? ENOTSUP : EINVAL);
  if (wanted->join_flags >= RDMA_MC_JOIN_FLAG_RESERVED) return returned(ENOTSUP);
  return returned(uroce::verbs::zero_or_errno([&] {
    return join(object(id), wanted->addr, context,
                wanted->join_flags == RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER);
  }));
}

UROCE_EXPORT int uroce_rdma_leave_multicast(rdma_cm_id* id, sockaddr* address) {
  return returned(uroce::verbs::zero_or_errno([&] { return leave(object(id), address); }));
}

}  // extern "C"
