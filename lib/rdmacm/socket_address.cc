#include "rdmacm/socket_address.h"

#include <netinet/in.h>

#include <cstring>

namespace uroce::rdmacm {

std::optional<SocketAddress> read_address(const sockaddr* from) {
  if (from == nullptr) return std::nullopt;
  SocketAddress address{.family = from->sa_family};
  // Programs give room of any alignment.
  if (from->sa_family == AF_INET) {
    sockaddr_in in;
    std::memcpy(&in, from, sizeof(in));
    std::array<uint8_t, 4> bytes;
    std::memcpy(bytes.data(), &in.sin_addr, bytes.size());
    address.address = Gid::from_ipv4(bytes);
    address.port = ntohs(in.sin_port);
    return address;
  }
  if (from->sa_family == AF_INET6) {
    sockaddr_in6 in6;
    std::memcpy(&in6, from, sizeof(in6));
    std::memcpy(address.address.bytes.data(), &in6.sin6_addr, address.address.bytes.size());
    address.port = ntohs(in6.sin6_port);
    return address;
  }
  return std::nullopt;
}

void write_address(const SocketAddress& from, sockaddr_storage& to) {
  std::memset(&to, 0, sizeof(to));
  if (from.family == AF_INET) {
    sockaddr_in in{};
    in.sin_family = AF_INET;
    in.sin_port = htons(from.port);
    std::memcpy(&in.sin_addr, from.address.bytes.data() + 12, sizeof(in.sin_addr));
    std::memcpy(&to, &in, sizeof(in));
  } else {
    sockaddr_in6 in6{};
    in6.sin6_family = AF_INET6;
    in6.sin6_port = htons(from.port);
    std::memcpy(&in6.sin6_addr, from.address.bytes.data(), sizeof(in6.sin6_addr));
    std::memcpy(&to, &in6, sizeof(in6));
  }
}

socklen_t address_length(sa_family_t family) {
  if (family == AF_INET) return sizeof(sockaddr_in);
  return family == AF_INET6 ? sizeof(sockaddr_in6) : 0;
}

}  // namespace uroce::rdmacm
