#include "nvmf/rdma/address.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cstring>

namespace uroce::nvmf {
namespace {

constexpr std::array<uint8_t, 12> kMapped{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF};

}  // namespace

std::string RdmaAddress::text() const {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const bool ipv4 = std::equal(kMapped.begin(), kMapped.end(), bytes.begin());
  const uint8_t* address = bytes.data() + (ipv4 ? kMapped.size() : 0);
  const char* written =
      inet_ntop(ipv4 ? AF_INET : AF_INET6, address, text.data(), static_cast<socklen_t>(text.size()));
  return written != nullptr ? written : "?";
}

RdmaAddress peer_address(rdma_cm_id& id) {
  RdmaAddress address;
  const sockaddr* peer = rdma_get_peer_addr(&id);
  if (peer->sa_family == AF_INET6) {
    std::memcpy(address.bytes.data(), &reinterpret_cast<const sockaddr_in6*>(peer)->sin6_addr, 16);
  } else {
    std::ranges::copy(kMapped, address.bytes.begin());
    std::memcpy(address.bytes.data() + kMapped.size(), &reinterpret_cast<const sockaddr_in*>(peer)->sin_addr,
                4);
  }
  return address;
}

}  // namespace uroce::nvmf
