#pragma once

#include <cstdint>

#include "qp/connection.h"
#include "qp/inbound_message.h"
#include "qp/local_memory.h"
#include "qp/response_queue.h"
#include "qp/turn.h"
#include "wire/packet.h"

namespace uroce::qp {

/// What the checks say about the request packet that is due.
enum class Verdict : uint8_t {
  kAccept,
  kNotReady,           // no receive work request: RNR NAK
  kInvalidRequest,     // NAK 0x61
  kTooLong,            // NAK 0x61, and the receive completes with a local length error
  kRemoteAccess,       // NAK 0x62
  kRemoteInvalidate,   // NAK 0x62, and the receive completes with a remote invalid request error
  kRemoteOperational,  // NAK 0x63: our own receive buffer; the receive completes with a local protection
                       // error
};

/// Everything that is known when a request packet is judged. The checks change nothing but `range`, into
/// which they resolve the memory that the packet goes to.
struct RequestContext {
  Connection& connection;
  const wire::Packet& packet;
  Turn& turn;
  InboundMessage& message;   // as it will be when the packet is accepted
  ResponseQueue* responses;  // nullptr: the service has none, nor requests that need it
  ResolvedRange& range;
};

/// PSNs that a READ of `length` bytes takes.
constexpr uint32_t response_packets(uint32_t length, uint32_t mtu) {
  return length == 0 ? 1u : static_cast<uint32_t>((uint64_t{length} + mtu - 1) / mtu);
}

/// Runs all checks of a packet whose PSN is the expected one, in the order in which their answers take
/// precedence.
Verdict check_request(RequestContext& context, InboundMessage::Kind in_progress);

}  // namespace uroce::qp
