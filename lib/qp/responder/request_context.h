#pragma once

#include <cstdint>

#include "qp/connection/connection.h"
#include "qp/connection/local_memory.h"
#include "qp/connection/turn.h"
#include "wire/packet.h"

namespace uroce::qp {

/// What the checks say about the request packet that is due.
enum class RequestStatus : uint8_t {
  kAccept,
  kNotReady,           // no receive work request: RNR NAK
  kInvalidRequest,     // NAK 0x61
  kNotPermitted,       // NAK 0x61: the access flags of the queue pair forbid the operation
  kTooLong,            // NAK 0x61, and the receive completes with a local length error
  kRemoteAccess,       // NAK 0x62
  kRemoteInvalidate,   // NAK 0x62, and the receive completes with a remote invalid request error
  kRemoteOperational,  // NAK 0x63: our own receive buffer; the receive completes with a local protection
                       // error
};

/// Everything that is known when a request packet is judged. The checks change nothing but `cursor` and the
/// turn's range, into which they resolve what the packet goes to.
struct RequestContext {
  const Connection& connection;
  const wire::Packet& packet;
  Turn& turn;
  SegmentCursor& cursor;  // of a SEND in its receive buffer
};

}  // namespace uroce::qp
