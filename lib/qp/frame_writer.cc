#include "qp/frame_writer.h"

#include <cassert>
#include <cstring>
#include <span>

#include "wire/frame.h"

namespace uroce::qp {

wire::Headers headers_to_peer(const Connection& connection, wire::Operation operation, Psn psn) {
  wire::Headers headers;
  headers.bth.opcode = wire::Opcode::make(connection.service(), operation);
  headers.bth.destination = connection.attributes.destination;
  headers.bth.psn = psn;
  return headers;
}

bool write_frame(port::TxFrame& frame, const Connection& connection, const wire::Headers& headers,
                 const Payload& payload) {
  const std::span<std::byte> buffer(frame.data, frame.capacity);
  assert(wire::frame_bytes(connection.frame, headers.bth.opcode, payload.bytes) <= frame.capacity);
  std::byte* to = wire::write_headers(buffer, connection.frame, headers, payload.bytes);
  if (payload.range != nullptr) {
    if (!payload.range->gather(to)) return false;
  } else if (payload.bytes > 0) {
    std::memcpy(to, payload.inline_data, payload.bytes);
  }
  frame.length = wire::finish_frame(buffer, connection.frame, headers.bth.opcode, payload.bytes);
  frame.to_self = connection.attributes.to_self;
  return true;
}

void write_frame(port::TxFrame& frame, const Connection& connection, const wire::Headers& headers) {
  (void)write_frame(frame, connection, headers, {});
}

}  // namespace uroce::qp
