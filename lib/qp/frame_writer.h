#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>

#include "copy/guarded_copy.h"
#include "port/port.h"
#include "qp/connection.h"
#include "qp/datagram_address.h"
#include "qp/local_memory.h"
#include "wire/frame.h"
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

/// The ICRC of a short frame is computed when the next one of its burst stands, or with the end of this: what
/// has just been written in fields cannot be read as vectors before the CPU is done with all stores up to
/// there, and the frame may have been in another CPU's cache. No frame leaves before.
class PendingIcrc {
 public:
  PendingIcrc() = default;
  PendingIcrc(const PendingIcrc&) = delete;
  PendingIcrc& operator=(const PendingIcrc&) = delete;
  ~PendingIcrc() { settle(); }

  /// It goes behind the packet, all of which stands.
  void add(std::byte* ip_packet, size_t bytes) {
    settle();
    ip_packet_ = ip_packet;
    bytes_ = bytes;
  }

 private:
  void settle() const {
    if (bytes_ > 0) wire::write_icrc(ip_packet_ + bytes_, wire::icrc_of({ip_packet_, bytes_}));
  }

  std::byte* ip_packet_ = nullptr;
  size_t bytes_ = 0;  // 0: none is due
};

/// A frame in the making: it begins with all up to and with the BTH; then whoever makes it writes the
/// extension headers that its opcode has; finish() does the rest. In line, as every packet is made so, and
/// kept in registers: nothing that is out of line gets to see it.
class FrameBuilder {
 public:
  /// To the peer of `connection`.
  FrameBuilder(port::TxFrame& frame, const Connection& connection, wire::PacketBth bth,
               uint32_t payload_bytes)
      : FrameBuilder(send_to_peer(frame, connection), connection.frame, bth, payload_bytes) {}
  /// To where `path` leads, by a BTH of any sort. Its way is still to be set.
  template <typename BthOrPart>
  FrameBuilder(port::TxFrame& frame, const wire::FrameTemplate& path, const BthOrPart& bth,
               uint32_t payload_bytes)
      : data_(frame.data),
        path_(path),
        row_(wire::opcode_row(bth.opcode)),
        layout_(path, row_, payload_bytes) {
    assert(row_.valid && layout_.end <= frame.capacity);
    frame.length = layout_.end;
    path.write(data_, layout_.end - layout_.bth);
    wire::write_bth(this->bth(), bth, layout_.icrc - layout_.pad);
  }

  /// The extension headers that it has ...
  [[nodiscard]] wire::HeaderSet extensions() const { return row_.headers; }
  /// ... and which stand behind this.
  [[nodiscard]] std::byte* bth() const { return data_ + layout_.bth; }
  [[nodiscard]] std::byte* extension() const { return bth() + wire::kBthBytes; }

  /// Payload, pad and ICRC. False: some of the payload's memory is gone, and the frame must not be sent.
  [[nodiscard]] bool finish(const Payload& payload, PendingIcrc& due) const {
    if (payload.data == nullptr || payload.bytes >= wire::kWideIcrcBytesMin) [[unlikely]]
      return finish_long(data_, path_, row_, {payload.bytes, payload.data, payload.pieces});
    if (!copy::guarded_read(data_ + layout_.payload, payload.data, payload.bytes)) [[unlikely]]
      return false;
    finish(due);
    return true;
  }
  /// Without payload.
  void finish(PendingIcrc& due) const {
    wire::write_pad(data_, layout_);
    due.add(data_ + path_.ip_offset(), layout_.icrc - path_.ip_offset());
  }
  /// The same for a frame that is alone.
  void finish() const { wire::write_pad_and_icrc(data_, path_, layout_); }

 private:
  static port::TxFrame& send_to_peer(port::TxFrame& frame, const Connection& connection) {
    frame.to_self = connection.attributes.to_self;
    frame.to_group = false;
    return frame;
  }
  static bool finish_long(std::byte* frame, const wire::FrameTemplate& path, const wire::OpcodeRow& row,
                          const Payload& payload);

  std::byte* const data_;
  const wire::FrameTemplate& path_;
  const wire::OpcodeRow& row_;
  const wire::FrameLayout layout_;
};

/// All of a datagram in one call; `headers` needs only what does not follow from the address.
[[nodiscard]] bool write_datagram(port::TxFrame& frame, const Connection& connection,
                                  const DatagramAddress& address, wire::Headers headers,
                                  const Payload& payload);

}  // namespace uroce::qp
