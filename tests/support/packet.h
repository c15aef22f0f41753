#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <span>
#include <string>

namespace uroce::testing {

/// The address of a Unix socket in the file system.
inline sockaddr_un unix_address(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  return address;
}

/// Sends a packet of any bytes, with up to 64 descriptors, on a SOCK_SEQPACKET socket: also one that
/// host::send_message() could not send. Waits for room. False: the other end has gone.
inline bool send_packet(int socket, std::span<const std::byte> bytes, std::span<const int> descriptors) {
  constexpr size_t kDescriptorsMax = 64;
  iovec part{.iov_base = const_cast<std::byte*>(bytes.data()), .iov_len = bytes.size()};
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(kDescriptorsMax * sizeof(int))> control{};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (!descriptors.empty()) {
    const size_t size = descriptors.size_bytes();
    header.msg_control = control.data();
    header.msg_controllen = CMSG_SPACE(size);
    cmsghdr* const rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(size);
    std::memcpy(CMSG_DATA(rights), descriptors.data(), size);
  }
  return sendmsg(socket, &header, MSG_NOSIGNAL) >= 0;
}

}  // namespace uroce::testing
