#pragma once

#include <cstdint>
#include <optional>

#include "base/values/identifiers.h"
#include "wire/cm_message.h"
#include "wire/packet.h"

namespace uroce::service {

/// What a message of the communication manager says about where it belongs.
struct Management {
  /// A request (REQ, SIDR_REQ) is for what listens; every other message for the owner of `receiver`.
  bool request = false;
  wire::CommId sender;    // the sender's number of the connection; 0: has none, or is not said
  wire::CommId receiver;  // the receiver's; 0: the sender does not know it (a REJ that gives up a REQ)
  QpNumber queue_pair;    // the sender's; 0: none
  // Of a request.
  wire::ServiceId service;
  Gid meant;  // the address of ours that is asked for, maybe a loopback address
};

/// Nullopt: a packet to queue pair 1 that is no such message. Its partition and Q_Key are for the receiver to
/// check.
std::optional<Management> management_of(const wire::Packet& packet);

}  // namespace uroce::service
