#pragma once

#include <cstddef>
#include <cstdint>

#include "copy/guarded_copy.h"
#include "port/port.h"
#include "port/tx_batch.h"
#include "qp/connection.h"
#include "qp/datagram_address.h"
#include "qp/local_memory.h"
#include "wire/frame.h"
#include "wire/frame_builder.h"
#include "wire/headers.h"

namespace uroce::qp {

/// What follows the headers of a frame: bytes at one place in memory, registered or inline data, or else (no
/// `data`) those of a range that lies in pieces.
struct Payload {
  uint32_t bytes = 0;
  const std::byte* data = nullptr;
  const ResolvedRange* pieces = nullptr;
};

/// What tells the BTH of a packet to the peer of `connection` apart from those of all others.
inline wire::PacketBth bth_to_peer(const Connection& connection, wire::Operation operation, Psn psn) {
  return {.opcode = wire::Opcode::make(connection.service, operation), .psn = psn};
}

/// A frame of a queue pair: wire::FrameBuilder, with a payload from the application's memory.
class FrameBuilder : public wire::FrameBuilder {
 public:
  /// To the peer of `connection`.
  FrameBuilder(port::TxFrame& frame, Connection& connection, const wire::PacketBth& bth,
               uint32_t payload_bytes)
      : wire::FrameBuilder(frame.data, frame.capacity, connection.frame, bth, payload_bytes), frame_(frame) {
    frame.length = bytes();
    frame.to_self = connection.attributes.to_self;
    frame.on_host = connection.attributes.on_host;
    frame.to_group = false;
  }
  /// To where `path` leads. Its way is still to be set.
  FrameBuilder(port::TxFrame& frame, const wire::FrameTemplate& path, const wire::Bth& bth,
               uint32_t payload_bytes)
      : wire::FrameBuilder(frame.data, frame.capacity, path, bth, payload_bytes), frame_(frame) {
    frame.length = bytes();
  }

  /// Payload, pad and ICRC, which may be put off in `tx`. False: some of the payload's memory is gone, and
  /// the frame must not be sent.
  [[nodiscard]] bool finish(const Payload& payload, port::TxBatch& tx) const {
    const bool wants_icrc = tx.wants_icrc(frame_);
    if (payload.data == nullptr || payload.bytes >= wire::kWideIcrcBytesMin || !wants_icrc) [[unlikely]]
      return finish_long(frame_, path_, row_, {payload.bytes, payload.data, payload.pieces},
                         icrc_before_psn(), tx);
    if (!copy::guarded_read(this->payload(), payload.data, payload.bytes)) [[unlikely]]
      return false;
    finish(tx);
    return true;
  }
  /// Pad and ICRC of a packet without payload; the ICRC may be put off in `tx`.
  void finish(port::TxBatch& tx) const {
    write_pad();
    if (!tx.wants_icrc(frame_)) [[unlikely]]
      return omit_icrc(frame_, layout_.icrc);
    if (const uint32_t before = icrc_before_psn(); before != 0) [[likely]]
      return tx.finish_later(wire::append_icrc_from, psn(), bytes_from_psn(), before);
    tx.finish_later(append_icrc, ip_packet(), covered_bytes(), 0);
  }

  /// finish() of what is long or has no ICRC. `before_psn`: icrc_before_psn(), if it is not 0.
  [[nodiscard]] static bool finish_long(port::TxFrame& frame, const wire::FrameTemplate& path,
                                        const wire::OpcodeRow& row, const Payload& payload,
                                        uint32_t before_psn, port::TxBatch& tx);
  /// Leaves the ICRC out. Its place, at `icrc`, is filled all the same: no byte of a frame is one of an
  /// earlier frame.
  static void omit_icrc(port::TxFrame& frame, uint32_t icrc) {
    wire::write_icrc(frame.data + icrc, 0);
    frame.has_icrc = false;
  }

 private:
  static void append_icrc(std::byte* ip_packet, size_t bytes, uint32_t /*none*/) {
    wire::append_icrc(ip_packet, bytes);
  }

  port::TxFrame& frame_;
};

/// All of a datagram in one call; `headers` needs only what does not follow from the address.
[[nodiscard]] bool write_datagram(port::TxFrame& frame, const Connection& connection,
                                  const DatagramAddress& address, wire::Headers headers,
                                  const Payload& payload, port::TxBatch& tx);

/// A CNP to the peer of `connection`, all of it.
[[gnu::cold]] void write_cnp(port::TxFrame& frame, const Connection& connection, port::TxBatch& tx);

}  // namespace uroce::qp
