#pragma once

#include <string>

#include "base/values/identifiers.h"
#include "base/values/result.h"

namespace uroce::engine {

/// The kernel's end of RoCEv2's UDP port on an interface: takes all that comes there and throws it away, so
/// that the kernel does not answer "port unreachable". The kernel gives the port to one socket at a time, so
/// it is also the lock against a second process that wants to be RoCE there. One thread at a time.
class DiscardSocket {
 public:
  /// EBUSY: another socket has the port, in this process or another. The message is a sentence without its
  /// subject.
  static Result<DiscardSocket> open(const std::string& interface, unsigned index);

  DiscardSocket(DiscardSocket&& other) noexcept;
  DiscardSocket& operator=(DiscardSocket&&) = delete;
  ~DiscardSocket();

  /// Makes the kernel resolve the address, which is on the link: a datagram without content goes to
  /// the port "discard" there.
  void solicit(const Gid& address) const;

 private:
  DiscardSocket(int socket, int family, unsigned index) : socket_(socket), family_(family), index_(index) {}

  int socket_;
  int family_;  // AF_INET6, which is both, or AF_INET where there is nothing else
  unsigned index_;
};

}  // namespace uroce::engine
