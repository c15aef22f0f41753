#pragma once

#include <cstddef>
#include <cstdint>

#include "port/port.h"
#include "qp/connection.h"
#include "qp/datagram_address.h"
#include "qp/local_memory.h"
#include "wire/headers.h"

namespace uroce::qp {

/// What follows the headers of a frame: bytes of resolved memory, bytes at an address (inline data), or
/// nothing.
struct Payload {
  uint32_t bytes = 0;
  const ResolvedRange* range = nullptr;
  const std::byte* inline_data = nullptr;
};

/// What the BTH of a packet to the peer of `connection` has in common with all of them, and what tells it
/// apart.
inline void address_to_peer(wire::Bth& bth, const Connection& connection, wire::Operation operation,
                            Psn psn) {
  bth.opcode = wire::Opcode::make(connection.service, operation);
  bth.partition_key = connection.partition_key;
  bth.destination = connection.attributes.destination;
  bth.psn = psn;
}

/// Headers of a packet to the peer of `connection`, with everything that is the same in all of them.
wire::Headers headers_to_peer(const Connection& connection, wire::Operation operation, Psn psn);

/// Completes `frame`: headers, payload, pad and ICRC. False: some of the payload's memory is gone, and the
/// frame must not be sent.
[[nodiscard]] bool write_frame(port::TxFrame& frame, const Connection& connection,
                               const wire::Headers& headers, const Payload& payload);
/// The same of a datagram; `headers` needs only what does not follow from the address.
[[nodiscard]] bool write_datagram(port::TxFrame& frame, const Connection& connection,
                                  const DatagramAddress& address, wire::Headers headers,
                                  const Payload& payload);
/// The same for a frame without payload.
void write_frame(port::TxFrame& frame, const Connection& connection, const wire::Headers& headers);

}  // namespace uroce::qp
