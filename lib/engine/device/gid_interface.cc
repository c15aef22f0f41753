#include "engine/device/gid_interface.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <cstring>

#include "base/process/cancellation.h"
#include "engine/platform/rtnetlink.h"
#include "net/link_scope.h"

namespace uroce::engine {
namespace {

bool has(const ifaddrs& entry, const Gid& address) {
  if (entry.ifa_addr == nullptr) return false;
  Gid theirs;
  if (entry.ifa_addr->sa_family == AF_INET) {
    sockaddr_in in;
    std::memcpy(&in, entry.ifa_addr, sizeof in);
    std::array<uint8_t, 4> bytes;
    std::memcpy(bytes.data(), &in.sin_addr, bytes.size());
    theirs = Gid::from_ipv4(bytes);
  } else if (entry.ifa_addr->sa_family == AF_INET6) {
    sockaddr_in6 in6;
    std::memcpy(&in6, entry.ifa_addr, sizeof in6);
    std::memcpy(theirs.bytes.data(), &in6.sin6_addr, theirs.bytes.size());
  }
  return theirs == address;
}

/// The interface that has the address; 0: none.
uint32_t interface_with(const Gid& address) {
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return 0;
  uint32_t index = 0;
  for (const ifaddrs* entry = all; entry != nullptr && index == 0; entry = entry->ifa_next)
    if (has(*entry, address)) index = if_nametoindex(entry->ifa_name);
  freeifaddrs(all);
  return index;
}

/// The interface by which the kernel routes to the address; 0: no route leads there.
uint32_t interface_to(const Gid& address) {
  auto netlink = RtNetlink::open(0);
  return netlink ? netlink->interface_to(address) : 0;
}

}  // namespace

uint32_t interface_for(const Gid& gid) {
  constexpr uint32_t kLoopback = 1;  // of each network namespace
  const CancellationDisabled held;   // also within a destructor, or under a lock
  if (const uint32_t index = interface_with(gid); index != 0) return index;
  // Every interface leads to link-local addresses.
  const uint32_t routed = net::is_link_local(gid) ? 0 : interface_to(gid);
  return routed != 0 ? routed : kLoopback;
}

}  // namespace uroce::engine
