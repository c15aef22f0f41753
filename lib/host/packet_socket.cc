#include "host/packet_socket.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>

namespace uroce::host {
namespace {

constexpr size_t kSentControlBytes = CMSG_SPACE(kDescriptorsMax * sizeof(int));
constexpr size_t kReceivedControlBytes = CMSG_SPACE(kDescriptorsOfDatagramMax * sizeof(int));

/// What a datagram of `length` bytes is, or what recvmsg() failed with.
Datagram::Kind kind_of(ssize_t length) {
  // An empty datagram looks like the end, and is treated as such.
  if (length >= 0) return length == 0 ? Datagram::Kind::kEnd : Datagram::Kind::kMessage;
  const bool nothing = errno == EAGAIN || errno == EINTR || errno == ENOMEM;
  return nothing ? Datagram::Kind::kNothing : Datagram::Kind::kEnd;
}

/// False: there were more than there can be.
bool take_descriptors(msghdr& header, Datagram& datagram) {
  bool fit = (header.msg_flags & MSG_CTRUNC) == 0;
  for (cmsghdr* part = CMSG_FIRSTHDR(&header); part != nullptr; part = CMSG_NXTHDR(&header, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int number = -1;
      std::memcpy(&number, CMSG_DATA(part) + i * sizeof(int), sizeof number);
      if (datagram.descriptors < datagram.descriptor.size()) {
        datagram.descriptor[datagram.descriptors++] = Descriptor(number);
      } else {
        datagram.surplus.emplace_back(number);
        fit = false;
      }
    }
  }
  return fit;
}

}  // namespace

Datagram receive_datagram(int socket) {
  // One byte more than a message has, so that a longer datagram shows.
  std::array<std::byte, sizeof(Message) + 1> bytes;
  alignas(cmsghdr) std::array<std::byte, kReceivedControlBytes> control;
  iovec part{.iov_base = bytes.data(), .iov_len = bytes.size()};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  Datagram datagram;
  const ssize_t length = recvmsg(socket, &header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  datagram.kind = kind_of(length);
  if (length < 0) return datagram;
  const bool fit = take_descriptors(header, datagram);
  if (datagram.kind == Datagram::Kind::kEnd) return datagram;
  const auto message = parse_message(std::span(bytes).first(static_cast<size_t>(length)));
  datagram.kind = fit && message ? Datagram::Kind::kMessage : Datagram::Kind::kGarbage;
  if (message) datagram.message = *message;
  return datagram;
}

PeekedDatagram peek_datagram(int socket) {
  std::array<std::byte, sizeof(Message) + 1> bytes;
  iovec part{.iov_base = bytes.data(), .iov_len = bytes.size()};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  PeekedDatagram peeked;
  // Without room for them the kernel tells of descriptors (MSG_CTRUNC), and leaves them where they are.
  const ssize_t length = recvmsg(socket, &header, MSG_PEEK | MSG_DONTWAIT);
  peeked.kind = kind_of(length);
  if (length < 0) return peeked;
  peeked.brings_descriptors = (header.msg_flags & MSG_CTRUNC) != 0;
  if (peeked.kind == Datagram::Kind::kEnd) return peeked;
  const auto message = parse_message(std::span(bytes).first(static_cast<size_t>(length)));
  if (message) {
    peeked.message = *message;
  } else {
    peeked.kind = Datagram::Kind::kGarbage;
  }
  return peeked;
}

Sent send_message(int socket, const Message& message, std::span<const int> descriptors) {
  const std::span<const std::byte> bytes = bytes_of(message);
  iovec part{.iov_base = const_cast<std::byte*>(bytes.data()), .iov_len = bytes.size()};
  alignas(cmsghdr) std::array<std::byte, kSentControlBytes> control{};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (!descriptors.empty()) {
    header.msg_control = control.data();
    header.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
    cmsghdr* const rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(descriptors.size_bytes());
    std::memcpy(CMSG_DATA(rights), descriptors.data(), descriptors.size_bytes());
  }
  if (sendmsg(socket, &header, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0) return Sent::kYes;
  // ETOOMANYREFS: too many descriptors are on their way in sockets, which ends when they are read.
  const bool later =
      errno == EAGAIN || errno == EINTR || errno == ENOBUFS || errno == ENOMEM || errno == ETOOMANYREFS;
  return later ? Sent::kLater : Sent::kNever;
}

}  // namespace uroce::host
