// A client on this host is a user, not a program, or one user's programs could take all connections. They
// have one address, so the server asks the service whose queue pair number the request has. Cost: one
// conversation of some 100 us for each connection; without a service that knows it, all of this host are one
// client.
#include "apps/mem/clients.h"

#include <algorithm>
#include <array>
#include <cstring>

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

/// An address of this host: of any device, for a program of this host may have come through another one.
bool is_ours(const Gid& address) {
  int count = 0;
  ibv_context** const devices = rdma_get_devices(&count);
  if (devices == nullptr) return false;
  const bool ours =
      std::any_of(devices, devices + count, [&](ibv_context* one) { return owns(one, address); });
  rdma_free_devices(devices);
  return ours;
}

}  // namespace

Gid peer_of(const rdma_cm_id& request) { return gid_of(request.route.addr.addr.ibaddr.dgid); }

bool is_of_this_host(const rdma_cm_id& request) { return is_ours(peer_of(request)); }

}  // namespace uroce::memory_export
