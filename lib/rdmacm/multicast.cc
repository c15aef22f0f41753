// Decision: rdma_leave_multicast withdraws the join event, or waits for its acknowledgement. The program may
// free its context afterwards.
#include "rdmacm/multicast.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>

#include "net/derived_mac.h"
#include "rdmacm/core.h"
#include "rdmacm/id_events.h"
#include "verbs/calls/call_guard.h"
#include "verbs/calls/entry_points.h"
#include "verbs/calls/export.h"

namespace uroce::rdmacm {
namespace {

constexpr uint32_t kGroupQueuePair = 0xFFFFFF;

ibv_gid gid_of(const Group& group) {
  ibv_gid gid;
  std::memcpy(gid.raw, group.address.bytes.data(), sizeof(gid.raw));
  return gid;
}

/// Whether a group that has a zone is one of the device's link.
bool is_on_link(const Id& id, const SocketAddress& group) {
  return group.zone == 0 || id.device == nullptr || group.zone == id.device->zone();
}

/// A group needs no permission: no peer is asked, and the event comes at once.
int join(Id& id, const sockaddr* to, void* context, bool send_only) {
  const auto address = read_address(to);
  if (!address || !net::is_multicast(address->address)) return EINVAL;
  if (id.device == nullptr || !is_on_link(id, *address)) return EINVAL;
  auto event = make_event(RDMA_CM_EVENT_MULTICAST_JOIN);
  event->group = address->address;
  event->param.ud.private_data = context;
  event->param.ud.ah_attr = address_vector(id, {.local = id.local.address, .remote = address->address});
  event->param.ud.qp_num = kGroupQueuePair;
  event->param.ud.qkey = id.datagram_qkey;
  {
    const std::lock_guard guard(core().mutex);
    if (id.find_group(address->address) != nullptr) return EADDRINUSE;
    id.groups.push_back({.address = address->address, .send_only = send_only});
    post(id, std::move(event));
  }
  return wait_if_synchronous(id);
}

int detach(const Id& id, const Group& group) {
  ibv_gid gid = gid_of(group);
  return group.attached ? uroce_ibv_detach_mcast(id.qp, &gid, 0) : 0;
}

/// The event that the group is joined is taken back, unless the program has it: then it is waited for, as the
/// program may use its context until then.
int leave(Id& id, const sockaddr* to) {
  const auto address = read_address(to);
  if (!address) return EINVAL;
  if (!is_on_link(id, *address)) return EADDRNOTAVAIL;
  if (id.event != nullptr && object(id.event).group == address->address) drop_last_event(id);
  std::unique_lock lock(core().mutex);
  const Group* group = id.find_group(address->address);
  if (group == nullptr) return EADDRNOTAVAIL;
  const bool unread =
      !take_events(id, [&](const Event& event) { return event.group == address->address; }).empty();
  core().acknowledged.wait(lock, [&] {
    group = id.find_group(address->address);
    return unread || group == nullptr || group->heard_of;
  });
  if (group == nullptr) return EADDRNOTAVAIL;
  const Group left = *group;
  std::erase_if(id.groups, [&](const Group& one) { return one.address == left.address; });
  lock.unlock();
  return detach(id, left);
}

}  // namespace

bool carry_out_join(Event& event) {
  Id& id = *event.owner;
  const auto find = [&] { return id.find_group(event.group); };
  std::unique_lock lock(core().mutex);
  // Leaving it waits until the event is acknowledged.
  const Group* const group = find();
  if (group == nullptr || group->send_only || id.qp == nullptr) return true;
  ibv_gid gid = gid_of(*group);
  lock.unlock();
  const int error = uroce_ibv_attach_mcast(id.qp, &gid, 0);
  if (error != 0) {
    event.event = RDMA_CM_EVENT_MULTICAST_ERROR;
    event.status = -error;
    return true;
  }
  lock.lock();
  if (Group* const joined = find()) joined->attached = true;
  return true;
}

void leave_groups_of_queue_pair(Id& id) {
  std::vector<Group> attached;
  {
    const std::lock_guard guard(core().mutex);
    for (Group& group : id.groups) {
      attached.push_back(group);
      group.attached = false;
    }
  }
  for (const Group& group : attached) detach(id, group);
}

void leave_groups(Id& id) {
  if (id.qp != nullptr) leave_groups_of_queue_pair(id);
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
