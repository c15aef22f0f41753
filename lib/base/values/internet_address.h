#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <optional>
#include <string>

namespace uroce {

/// An IPv4 or IPv6 address as people write it, and a port, as sockets and rdma_cm take them. Null: it is
/// neither.
inline std::optional<sockaddr_storage> internet_address(const std::string& text, uint16_t port) {
  sockaddr_storage address{};
  auto& four = reinterpret_cast<sockaddr_in&>(address);
  auto& six = reinterpret_cast<sockaddr_in6&>(address);
  if (inet_pton(AF_INET, text.c_str(), &four.sin_addr) == 1) {
    four.sin_family = AF_INET;
    four.sin_port = htons(port);
  } else if (inet_pton(AF_INET6, text.c_str(), &six.sin6_addr) == 1) {
    six.sin6_family = AF_INET6;
    six.sin6_port = htons(port);
  } else {
    return std::nullopt;
  }
  return address;
}

}  // namespace uroce
