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

/// Behind the headers a long payload, in one pass with the ICRC.
[[gnu::noinline]] bool finish_in_one_pass(port::TxFrame& frame, const wire::FrameTemplate& path,
                                          wire::Opcode opcode, const Payload& payload,
                                          wire::CopyWithIcrc copy) {
  const std::span<std::byte> buffer(frame.data, frame.capacity);
  uint32_t icrc = wire::icrc_of_headers(buffer, path, opcode);
  if (!payload.range->gather(wire::payload_in(buffer, path, opcode), copy, &icrc)) return false;
  frame.length = wire::finish_frame(buffer, path, opcode, payload.bytes, icrc);
  return true;
}

inline bool write_frame(port::TxFrame& frame, const wire::FrameTemplate& path, const wire::Headers& headers,
                        const Payload& payload) {
  const wire::OpcodeRow& row = wire::opcode_row(headers.bth.opcode);
  const wire::FrameLayout layout(path, row, payload.bytes);
  assert(row.valid && layout.end <= frame.capacity);
  std::byte* const data = frame.data;
  frame.length = layout.end;
  wire::write_headers(data, path, row, headers, layout);
  if (payload.range != nullptr) {
    if (const auto copy = wire::copy_with_icrc(payload.bytes);
        copy != nullptr && payload.bytes % 4 == 0 && payload.range->in_one_piece())
      return finish_in_one_pass(frame, path, headers.bth.opcode, payload, copy);
    if (!payload.range->gather(data + layout.payload)) return false;
  } else if (payload.bytes > 0) {
    std::memcpy(data + layout.payload, payload.inline_data, payload.bytes);
  }
  wire::write_pad_and_icrc(data, path, layout);
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
