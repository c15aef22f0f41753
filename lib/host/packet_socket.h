#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/descriptor.h"
#include "host/control.h"

namespace uroce::host {

/// What one recvmsg() brings.
struct Datagram {
  enum class Kind : uint8_t {
    kNothing,  // none waits
    kEnd,      // the other end has closed, or the connection is broken
    kMessage,
    kGarbage,  // no message of the protocol: another length, more descriptors than there can be
  };
  Kind kind = Kind::kNothing;
  Message message;
  size_t descriptors = 0;
  std::array<Descriptor, kDescriptorsMax> descriptor;
};
/// Never blocks. All descriptors that come are taken or closed.
Datagram receive_datagram(int socket);

enum class Sent : uint8_t { kYes, kLater, kNever };
/// Never blocks. kLater: the other end has not read what it was sent before.
Sent send_message(int socket, const Message& message, std::span<const int> descriptors);

}  // namespace uroce::host
