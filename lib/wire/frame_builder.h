#pragma once

#include <cstddef>
#include <cstdint>

#include "base/values/contract.h"
#include "wire/frame.h"
#include "wire/headers.h"
#include "wire/opcode.h"

namespace uroce::wire {

/// A frame in the making: it begins with all up to and with the BTH; then the caller writes the
/// extension headers that its opcode has, and the payload; the end is pad and ICRC. In line, as every packet
/// is made so, and kept in registers: nothing that is out of line gets to see it.
class FrameBuilder {
 public:
  /// To where `path` leads. `data` has room for `capacity` bytes.
  FrameBuilder(std::byte* data, [[maybe_unused]] size_t capacity, const FrameTemplate& path, const Bth& bth,
               uint32_t payload_bytes)
      : data_(data), path_(path), row_(opcode_row(bth.opcode)), layout_(path, row_, payload_bytes) {
    UROCE_ASSERT(row_.valid && layout_.end <= capacity);
    path.write(data_, layout_.end - layout_.bth);
    write_bth(this->bth(), bth, layout_.icrc - layout_.pad);
  }
  /// To the peer of `path`.
  FrameBuilder(std::byte* data, [[maybe_unused]] size_t capacity, FrameTemplate& path, const PacketBth& bth,
               uint32_t payload_bytes)
      : data_(data), path_(path), row_(opcode_row(bth.opcode)), layout_(path, row_, payload_bytes) {
    UROCE_ASSERT(row_.valid && layout_.end <= capacity);
    icrc_before_psn_ = path.write_packet(data_, layout_.end - layout_.bth, bth, layout_.icrc - layout_.pad);
  }

  /// The length of the whole frame.
  [[nodiscard]] uint32_t bytes() const { return layout_.end; }
  /// The extension headers that the packet has.
  [[nodiscard]] HeaderSet extensions() const { return row_.headers; }
  /// The BTH, behind which the extension headers stand.
  [[nodiscard]] std::byte* bth() const { return data_ + layout_.bth; }
  [[nodiscard]] std::byte* extension() const { return bth() + kBthBytes; }
  [[nodiscard]] std::byte* payload() const { return data_ + layout_.payload; }

  /// What the ICRC covers, after write_pad(); it goes behind that.
  [[nodiscard]] std::byte* ip_packet() const { return data_ + path_.ip_offset(); }
  [[nodiscard]] size_t covered_bytes() const { return layout_.icrc - path_.ip_offset(); }
  /// Where its PSN stands. What stands before it amounts to icrc_before_psn(), if that is not 0.
  [[nodiscard]] std::byte* psn() const { return extension() - kPsnWordBytes; }
  [[nodiscard]] size_t bytes_from_psn() const {
    return layout_.icrc - layout_.bth - (kBthBytes - kPsnWordBytes);
  }
  [[nodiscard]] uint32_t icrc_before_psn() const { return icrc_before_psn_; }

  void write_pad() const { wire::write_pad(data_, layout_); }
  void write_pad_and_icrc() const { wire::write_pad_and_icrc(data_, path_, layout_); }

 protected:
  std::byte* const data_;
  const FrameTemplate& path_;
  const OpcodeRow& row_;
  const FrameLayout layout_;
  uint32_t icrc_before_psn_ = 0;
};

}  // namespace uroce::wire
