// A client on this host is a user, not a program, or one user's programs could take all connections. They
// have one address, so the server asks the service whose queue pair number the request has. Cost: one
// conversation of some 100 us for each connection; without a service that knows it, all of this host are one
// client.
#include "apps/mem/clients.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "drivers/port/host/attachment.h"
#include "drivers/port/host/socket_path.h"

namespace uroce::memory_export {
namespace {

constexpr uint8_t kPort = 1;

Gid gid_of(const ibv_gid& gid) {
  Gid same;
  std::memcpy(same.bytes.data(), gid.raw, same.bytes.size());
  return same;
}

bool owns(ibv_context* device, const Gid& address) {
  ibv_port_attr port{};
  if (ibv_query_port(device, kPort, &port) != 0) return false;
  for (int index = 0; index < port.gid_tbl_len; ++index) {
    ibv_gid gid{};
    if (ibv_query_gid(device, kPort, index, &gid) == 0 && gid_of(gid) == address) return true;
  }
  return false;
}

}  // namespace

Client client_of(const rdma_cm_id& request, QpNumber queue_pair) {
  const rdma_ib_addr& ends = request.route.addr.addr.ibaddr;
  const Gid peer = gid_of(ends.dgid);
  if (!owns(request.verbs, peer)) return {.host = peer};
  const auto user = drivers::find_user(drivers::service_socket_path(), peer, queue_pair);
  return {.user = user ? std::optional(*user) : std::nullopt};
}

}  // namespace uroce::memory_export
