// From rdma_bind_addr to rdma_listen: which device and port an id has, and where its peer is.
//
// Decision: 127.0.0.0/8 and ::1 mean this host. Both ends use the first address of that family, or the one
// that the other end named. The REQ's private data carry what the program said, and a listener at 127.0.0.1
// hears only this host.
//
// Decision: the unspecified address as destination means the bound address, else the loopback address. It
// reaches listeners of the process; on a shared device, of all programs.
//
// Decision: the zone of a link-local address is the interface of GID 0; an unknown one is ENODEV, as in
// Linux. One that contradicts the bound address is EINVAL, as for sockets. Without a zone the first device
// with a way is taken.
#include <infiniband/ib.h>

#include <algorithm>
#include <cerrno>
#include <mutex>

#include "rdmacm/core.h"
#include "rdmacm/id.h"
#include "rdmacm/id_events.h"
#include "rdmacm/id_life.h"
#include "verbs/calls/call_guard.h"
#include "verbs/calls/export.h"

namespace uroce::rdmacm {
namespace {

/// Linux's backlog for a value that says nothing.
constexpr int kBacklogMax = 1024;

/// The device whose address it is; null for an address of every device, 0.0.0.0 or 127.0.0.1. EADDRNOTAVAIL;
/// of a GID, or an address with a zone, ENODEV.
Result<CmDevice*> device_at(const SocketAddress& address) {
  if (const auto all = devices(); !all) return all.error();
  if (address.is_any()) return nullptr;
  const bool loopback = address.address.is_loopback();
  CmDevice* const device = loopback ? nullptr : device_of(address.address, address.zone);
  const bool is_here = loopback ? this_host(address.family == AF_INET).has_value() : device != nullptr;
  const bool of_a_device = address.zone != 0 || address.family == AF_IB;
  if (!is_here) return Error{of_a_device ? ENODEV : EADDRNOTAVAIL, "no device has the address"};
  return device;
}

/// Gives the id its address and port; `device` has the address, or is null. 0 or errno.
int bind(Id& id, const SocketAddress& address, CmDevice* device) {
  if (id.state != IdState::kIdle) return EINVAL;
  const uint64_t handle = id.handle;
  const bool by_gid = address.family == AF_IB;
  const bool ipv6 = by_gid ? !address.address.is_ipv4() : address.family == AF_INET6;
  const auto ib_space = by_gid ? port_space_of(address.ib, id.ps) : std::nullopt;
  if (by_gid && !ib_space) return EPROTONOSUPPORT;
  const auto only = device != nullptr ? std::optional(device->device().shared_device()) : std::nullopt;
  // Of several threads that bind one id only the first gets a port.
  const Result<uint16_t> port = ports().bind(handle,
                                             {.space = static_cast<uint16_t>(ib_space.value_or(id.space())),
                                              .address = address.address,
                                              .ipv6 = ipv6,
                                              .port = address.port,
                                              .reuse = id.reuse_address,
                                              .family_only = !ipv6 || id.family_only},
                                             only);
  if (!port) return port.error().code;
  {
    const std::lock_guard guard(core().mutex);
    if (core().find(handle) == &id) {
      id.local = address;
      id.local.port = *port;
      id.ib_space = ib_space;
      if (by_gid) id.local.ib.service = id.local_service().value;
      if (by_gid) id.local.ib.service_mask = ~uint64_t{0};
      id.has_port = true;
      id.state = IdState::kBound;
      return 0;
    }
  }
  // The id has been destroyed meanwhile.
  ports().release(handle);
  return EINVAL;
}

int bind_and_attach(Id& id, const SocketAddress& address) {
  const Result<CmDevice*> device = device_at(address);
  if (!device) return device.error().code;
  if (const int error = bind(id, address, *device); error != 0) return error;
  CmDevice* const meant = address.address.is_loopback() ? loopback_device() : *device;
  if (meant != nullptr)
    attach(id, *meant);
  else
    show_addresses(id);
  return 0;
}

/// The way of an id that reaches this host, by a loopback address at either end: from one address of a device
/// to the same. Programs are shown the addresses that they said. 0 or errno.
int stay_here(Id& id, const SocketAddress& destination) {
  Source own{id.device, id.local.address};
  if (id.device == nullptr || id.local.address.is_loopback()) {
    const bool to_loopback = destination.address.is_loopback();
    const auto found =
        to_loopback
            ? this_host(destination.family == AF_INET)
            : std::optional(Source{device_of(destination.address, destination.zone), destination.address});
    if (!found || found->device == nullptr) return ENETUNREACH;
    own = *found;
  }
  if (id.local.is_any()) id.local.address = destination.address;
  if (own.device != id.device) attach(id, *own.device);
  id.way.local = id.way.remote = own.address;
  return 0;
}

/// Whether the device has the partition of an address of AF_IB.
bool takes_partition(const Id& id, const SocketAddress& destination) {
  constexpr uint16_t kKeyBits = 0x7FFF;  // without that of full membership
  return destination.family != AF_IB ||
         std::ranges::any_of(id.device->device().partition_keys(), [&](uint16_t key) {
           return ((key ^ destination.ib.partition_key) & kKeyBits) == 0;
         });
}

/// The device and both ends of the way to `destination`, from the bound address, if any. 0 or errno.
int choose_way(Id& id, SocketAddress& destination) {
  if (id.local.family != destination.family) return EINVAL;
  const bool bound = id.device != nullptr;
  // The unspecified address means this host.
  if (destination.is_any())
    destination.address = bound ? id.local.address : SocketAddress::loopback(destination.family);
  id.way = {.traffic_class = id.type_of_service,
            .service_level = static_cast<uint8_t>(id.type_of_service >> 5)};
  if (destination.address.is_loopback() || id.local.address.is_loopback()) return stay_here(id, destination);
  // As sockets have it: Linux's rdma_cm takes the zone of the bound address, and says nothing.
  if (bound && destination.zone != 0 && destination.zone != id.device->zone()) return EINVAL;
  if (!bound) {
    const auto source = source_to(destination.address, destination.zone);
    if (!source) return source.error().code;
    id.local.address = source->address;
    attach(id, *source->device);
  }
  if (!takes_partition(id, destination)) return ENODEV;
  id.way.local = id.local.address;
  id.way.remote = destination.address;
  return 0;
}

int resolve_address(Id& id, const sockaddr* from, const sockaddr* to, int timeout_ms) {
  auto destination = read_address(to);
  if (!destination) return EINVAL;
  if (id.state == IdState::kIdle) {
    const auto source = from != nullptr
                            ? read_address(from)
                            : SocketAddress{.family = destination->family,
                                            .address = SocketAddress::any(destination->family),
                                            .ib = {.partition_key = destination->ib.partition_key}};
    if (!source) return EINVAL;
    if (const int error = bind_and_attach(id, *source); error != 0) return error;
  }
  if (id.state != IdState::kBound) return EINVAL;
  if (const int error = choose_way(id, *destination); error != 0) return error;
  id.remote = *destination;
  show_addresses(id);
  {
    const std::lock_guard guard(core().mutex);
    id.state = IdState::kAddressQuery;
  }
  const int error = id.device->manage([&](engine::Gsi& services, Instant now) {
    services.resolve(id.way.local, id.way.remote, id.handle, now,
                     now + milliseconds(std::max(timeout_ms, 0)));
  });
  if (error == 0) return wait_if_synchronous(id);
  const std::lock_guard guard(core().mutex);
  id.state = IdState::kBound;
  return error;
}

/// There is one path, and no query is needed for it.
int resolve_route(Id& id) {
  {
    const std::lock_guard guard(core().mutex);
    if (id.state != IdState::kAddressResolved) return EINVAL;
    id.state = IdState::kRouteResolved;
    show_path(id);
    post(id, make_event(RDMA_CM_EVENT_ROUTE_RESOLVED));
  }
  return wait_if_synchronous(id);
}

int listen_on(Id& id, CmDevice& device, uint32_t backlog) {
  int error = 0;
  const int managed = device.manage([&](engine::Gsi& services, Instant) {
    const Result<cm::ListenerId> listener =
        services.agent().listen(id.local_service(), {id.local.address, id.family_only}, backlog, id.handle);
    if (listener)
      id.listening.push_back({&device, *listener});
    else
      error = listener.error().code;
  });
  return managed != 0 ? managed : error;
}

}  // namespace

void end_listening(Id& id) {
  for (const Id::Listening& one : id.listening) {
    static_cast<void>(one.device->manage(
        [&](engine::Gsi& services, Instant) { services.agent().end_listening(one.listener); }));
  }
  id.listening.clear();
}

namespace {

/// On every device, or on the one whose address the id is bound to. 0 or errno: on none.
int listen_on_devices(Id& id, int backlog) {
  const auto waiting = static_cast<uint32_t>(backlog > 0 ? std::min(backlog, kBacklogMax) : kBacklogMax);
  const auto all = devices();
  if (!all) return all.error().code;
  for (const auto& device : *all) {
    if (id.device != nullptr && id.device != device.get()) continue;
    const int error = listen_on(id, *device, waiting);
    if (error == 0) continue;
    end_listening(id);
    return error;
  }
  return 0;
}

/// A request may come as soon as the port is claimed, as the host's service has one that waits: the agents
/// are there then, and hold it until they know the listener. 0 or errno.
int prepare_agents(const Id& id) {
  const auto all = devices();
  if (!all) return all.error().code;
  for (const auto& device : *all) {
    if (id.device != nullptr && id.device != device.get()) continue;
    if (const int error = device->manage([](engine::Gsi&, Instant) {}); error != 0) return error;
  }
  return 0;
}

int listen(Id& id, int backlog) {
  if (id.state == IdState::kIdle) {
    if (const int error = bind_and_attach(id, {AF_INET, SocketAddress::any(AF_INET)}); error != 0)
      return error;
  }
  {
    const std::lock_guard guard(core().mutex);
    if (id.state != IdState::kBound) return EINVAL;
    id.state = IdState::kListening;  // no other call changes the state until the port is claimed
  }
  int error = prepare_agents(id);
  if (error == 0) {
    const Status claimed = ports().claim(id.handle);
    error = claimed ? listen_on_devices(id, backlog) : claimed.error().code;
  }
  if (error == 0) return 0;
  const std::lock_guard guard(core().mutex);
  id.state = IdState::kBound;
  return error;
}

}  // namespace

}  // namespace uroce::rdmacm

using namespace uroce::rdmacm;

extern "C" {

UROCE_EXPORT int uroce_rdma_bind_addr(rdma_cm_id* id, sockaddr* address) {
  return returned(uroce::verbs::zero_or_errno([&] {
    const auto local = read_address(address);
    return local ? bind_and_attach(object(id), *local) : EINVAL;
  }));
}

UROCE_EXPORT int uroce_rdma_resolve_addr(rdma_cm_id* id, sockaddr* from, sockaddr* to, int timeout_ms) {
  return returned(
      uroce::verbs::zero_or_errno([&] { return resolve_address(object(id), from, to, timeout_ms); }));
}

UROCE_EXPORT int uroce_rdma_resolve_route(rdma_cm_id* id, int) {
  return returned(uroce::verbs::zero_or_errno([&] { return resolve_route(object(id)); }));
}

UROCE_EXPORT int uroce_rdma_listen(rdma_cm_id* id, int backlog) {
  return returned(uroce::verbs::zero_or_errno([&] { return listen(object(id), backlog); }));
}

}  // extern "C"
