#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/process/descriptor.h"
#include "host/control.h"

namespace uroce::host {

/// Descriptors that the kernel takes with one datagram, at most (SCM_MAX_FD).
inline constexpr size_t kDescriptorsOfDatagramMax = 253;

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
  std::vector<Descriptor> surplus;  // beyond those that a message can have
};
/// Never blocks, and closes no descriptor, provided that the process has numbers left for all that one
/// datagram can bring: the kernel closes those that get no number within recvmsg(), and closing may block.
Datagram receive_datagram(int socket);

/// The next datagram without its descriptors. It stays where it is.
struct PeekedDatagram {
  Datagram::Kind kind = Datagram::Kind::kNothing;
  Message message;
  bool brings_descriptors = false;
};
/// Never blocks. No descriptor is taken.
PeekedDatagram peek_datagram(int socket);

enum class Sent : uint8_t { kYes, kLater, kNever };
/// Never blocks. kLater: the other end has not read what it was sent before.
Sent send_message(int socket, const Message& message, std::span<const int> descriptors);

}  // namespace uroce::host
