#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/values/contract.h"
#include "port/port.h"
#include "port/tx_batch.h"
#include "qp/connection/connection.h"
#include "qp/connection/frame_writer.h"
#include "wire/frame.h"

namespace uroce::qp {

/// Makes frames that differ from the last one to the peer of a connection in PSN, place and payload only.
/// What they have in common is here: of one that is a local variable in registers, where it survives the
/// stores into frames.
class FrameRun {
 public:
  struct Shape {
    uint32_t extension_at = 0;  // behind the BTH
    uint32_t payload_at = 0;
    uint32_t payload_bytes = 0;
    uint32_t frame_bytes = 0;

    /// The shape of packets of that opcode to where `path` leads.
    static Shape of(const wire::FrameTemplate& path, const wire::OpcodeRow& row, uint32_t payload_bytes) {
      const wire::FrameLayout layout(path, row, payload_bytes);
      return {layout.bth + wire::kBthBytes, layout.payload, payload_bytes, layout.end};
    }
  };
  /// The frames become part of `tx` by its commit(), after end().
  FrameRun(const Connection& connection, const Shape& shape, port::TxBatch& tx)
      : path_(connection.frame),
        shape_(shape),
        psn_at_(path_.bytes() + wire::kBthBytes - wire::kPsnWordBytes),
        icrc_before_psn_(path_.icrc_before_psn()),
        to_self_(connection.attributes.to_self),
        on_host_(connection.attributes.on_host),
        wants_icrc_(tx.wants_icrc(port::TxFrame{.to_self = to_self_, .on_host = on_host_})),
        tx_(tx) {
    UROCE_ASSERT(icrc_before_psn_ != 0);
  }

  /// The headers up to and with the BTH. Returns where the extension headers go.
  std::byte* begin(port::TxFrame& frame, bool ack_request, Psn psn) const {
    path_.write_again(frame.data, ack_request, psn);
    frame.length = shape_.frame_bytes;
    frame.to_self = to_self_;
    frame.on_host = on_host_;
    frame.to_group = false;
    return frame.data + shape_.extension_at;
  }
  /// Payload, pad and ICRC, which is put off until the next one is made. False: some of the payload's memory
  /// is gone, and the frame must not be sent.
  [[nodiscard]] bool finish(port::TxFrame& frame, const std::byte* data) {
    if (shape_.payload_bytes >= wire::kWideIcrcBytesMin || !wants_icrc_) [[unlikely]]
      return FrameBuilder::finish_long(frame, path_, wire::opcode_row({static_cast<uint8_t>(path_.kind())}),
                                       {shape_.payload_bytes, data}, icrc_before_psn_, tx_);
    std::byte* const to = frame.data + shape_.payload_at;
    if (!copy::guarded_read(to, data, shape_.payload_bytes)) [[unlikely]]
      return false;
    wire::store_be32(to + shape_.payload_bytes, 0);  // as write_pad()
    put_off_icrc(frame);
    return true;
  }
  /// The ICRC of a packet without payload, put off as finish() with payload does.
  void finish(port::TxFrame& frame) {
    UROCE_ASSERT(shape_.payload_bytes == 0);
    if (!wants_icrc_) [[unlikely]]
      return FrameBuilder::omit_icrc(frame, shape_.payload_at);
    put_off_icrc(frame);
  }
  /// Leaves the ICRC of the last frame, if there was one, to the batch.
  void end() const {
    if (put_off_ != nullptr) tx_.finish_later(wire::append_icrc_from, put_off_, covered(), icrc_before_psn_);
  }

 private:
  void put_off_icrc(const port::TxFrame& frame) {
    if (std::byte* const before = std::exchange(put_off_, frame.data + psn_at_); before != nullptr)
      wire::append_icrc_from(before, covered(), icrc_before_psn_);
  }
  [[nodiscard]] size_t covered() const { return shape_.frame_bytes - wire::kIcrcBytes - psn_at_; }

  const wire::FrameTemplate& path_;
  const Shape shape_;
  const uint32_t psn_at_;
  const uint32_t icrc_before_psn_;
  const bool to_self_;
  const bool on_host_;
  const bool wants_icrc_;
  port::TxBatch& tx_;
  std::byte* put_off_ = nullptr;  // where the PSN of the last frame is, which lacks its ICRC
};

}  // namespace uroce::qp
