#include "drivers/port/ethdev/memif/unix_socket.h"

#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "base/values/contract.h"

namespace uroce::drivers {
namespace {

constexpr int kKind = SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK;
constexpr size_t kMessageBytesMax =
    256;  // memif's have 128; what is longer arrives cut, and is wrong all the same
constexpr size_t kDescriptorsMax = 8;  // to receive; the kernel drops what is more

int close_and_fail(int descriptor) {
  const int code = errno;
  close(descriptor);
  errno = code;
  return -1;
}

/// Keeps the first descriptor that came with a message.
void take_descriptors(msghdr& header, UnixMessage& message) {
  for (cmsghdr* part = CMSG_FIRSTHDR(&header); part != nullptr; part = CMSG_NXTHDR(&header, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int descriptor = -1;
      std::memcpy(&descriptor, CMSG_DATA(part) + i * sizeof(int), sizeof descriptor);
      if (message.descriptor) {
        close(descriptor);
      } else {
        message.descriptor = descriptor;
      }
    }
  }
}

}  // namespace

UnixAddress::UnixAddress(const std::string& name, bool abstract) {
  UROCE_ASSERT(name.size() < sizeof address_.sun_path);
  address_.sun_family = AF_UNIX;
  const size_t first = abstract ? 1 : 0;
  const size_t count = std::min(name.size(), sizeof address_.sun_path - first);
  std::memcpy(address_.sun_path + first, name.data(), count);
  // A name in the abstract namespace ends where the address does.
  length_ = abstract ? static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + first + count)
                     : static_cast<socklen_t>(sizeof address_);
}

int connect_to(const UnixAddress& address) {
  const int descriptor = socket(AF_UNIX, kKind, 0);
  if (descriptor < 0) return -1;
  if (connect(descriptor, address.get(), address.length()) != 0) return close_and_fail(descriptor);
  return descriptor;
}

int listen_at(const UnixAddress& address) {
  const int descriptor = socket(AF_UNIX, kKind, 0);
  if (descriptor < 0) return -1;
  constexpr int kBacklog = 64;
  // Of the socket, for the file that bind() makes: there is no moment in which others could connect.
  if (fchmod(descriptor, S_IRUSR | S_IWUSR) != 0) return close_and_fail(descriptor);
  if (bind(descriptor, address.get(), address.length()) != 0 || listen(descriptor, kBacklog) != 0)
    return close_and_fail(descriptor);
  return descriptor;
}

bool same_user(int socket) {
  ucred peer{};
  socklen_t length = sizeof peer;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) return false;
  return peer.uid == geteuid() || peer.uid == 0;
}

int accept_one(int listener) { return accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK); }

Reception receive_message(int socket, UnixMessage& message) {
  std::array<char, kMessageBytesMax> bytes;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kDescriptorsMax * sizeof(int))> control;
  iovec part{.iov_base = bytes.data(), .iov_len = bytes.size()};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  const ssize_t length = recvmsg(socket, &header, MSG_CMSG_CLOEXEC);
  if (length < 0 && (errno == EAGAIN || errno == EINTR)) return Reception::kNothing;
  if (length < 0) return Reception::kEnd;
  take_descriptors(header, message);
  message.bytes.assign(bytes.data(), bytes.data() + length);
  return length == 0 ? Reception::kEnd : Reception::kMessage;
}

bool send_message(int socket, const UnixMessage& message) {
  iovec part{.iov_base = const_cast<char*>(message.bytes.data()), .iov_len = message.bytes.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (message.descriptor) {
    header.msg_control = control.data();
    header.msg_controllen = control.size();
    cmsghdr* rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(rights), &*message.descriptor, sizeof(int));
  }
  return sendmsg(socket, &header, MSG_NOSIGNAL) >= 0;
}

bool has_unread(int socket) {
  int bytes = 0;
  return ioctl(socket, SIOCOUTQ, &bytes) == 0 && bytes > 0;
}

}  // namespace uroce::drivers
