#include "qp/frame_writer.h"

#include <cassert>
#include <cstring>
#include <span>

#include "wire/frame.h"
#include "wire/icrc.h"

namespace uroce::qp {

wire::Headers headers_to_peer(const Connection& connection, wire::Operation operation, Psn psn) {
  wire::Headers headers;
  address_to_peer(headers.bth, connection, operation, psn);
  return headers;
}

namespace {

bool write_frame(port::TxFrame& frame, const wire::FrameTemplate& path, const wire::Headers& headers,
                 const Payload& payload) {
  const std::span<std::byte> buffer(frame.data, frame.capacity);
  assert(wire::frame_bytes(path, headers.bth.opcode, payload.bytes) <= frame.capacity);
  std::byte* to = wire::write_headers(buffer, path, headers, payload.bytes);
  if (payload.range != nullptr) {
    // Long ones in one pass.
    if (const auto copy = wire::copy_with_icrc(payload.bytes);
        copy != nullptr && payload.bytes % 4 == 0 && payload.range->in_one_piece()) {
      uint32_t icrc = wire::icrc_of_headers(buffer, path, headers.bth.opcode);
      if (!payload.range->gather(to, copy, &icrc)) return false;
      frame.length = wire::finish_frame(buffer, path, headers.bth.opcode, payload.bytes, icrc);
      return true;
    }
    if (!payload.range->gather(to)) return false;
  } else if (payload.bytes > 0) {
    std::memcpy(to, payload.inline_data, payload.bytes);
  }
  frame.length = wire::finish_frame(buffer, path, headers.bth.opcode, payload.bytes);
  return true;
}

}  // namespace

bool write_frame(port::TxFrame& frame, const Connection& connection, const wire::Headers& headers,
                 const Payload& payload) {
  frame.to_self = connection.attributes.to_self;
  frame.to_group = false;
  return write_frame(frame, connection.frame, headers, payload);
}

bool write_datagram(port::TxFrame& frame, const Connection& connection, const DatagramAddress& address,
                    wire::Headers headers, const Payload& payload) {
  frame.to_self = address.to_self;
  frame.to_group = address.to_group;
  headers.bth.destination = address.destination;
  headers.deth.source = connection.options.number;
  const bool own = (address.qkey & DatagramAddress::kOwnQkey) != 0;
  headers.deth.qkey = own ? connection.attributes.qkey : address.qkey;
  return write_frame(frame, address.frame, headers, payload);
}

void write_frame(port::TxFrame& frame, const Connection& connection, const wire::Headers& headers) {
  (void)write_frame(frame, connection, headers, {});
}

}  // namespace uroce::qp
