#pragma once

#include <cstdint>

namespace uroce {

/// A sequence number of 24 bits: arithmetic modulo 2^24, and a signed 24-bit difference decides which of two
/// is newer, so at most 2^23 may be outstanding. Numbers of two kinds do not mix.
template <typename Kind>
class SequenceNumber {
 public:
  static constexpr uint32_t kMask = 0xFFFFFF;

  constexpr SequenceNumber() = default;
  /// The upper 8 bits do not count.
  constexpr explicit SequenceNumber(uint32_t value) : value_(value) {}

  [[nodiscard]] constexpr uint32_t value() const { return value_ & kMask; }

  /// Signed distance `*this - other` in -2^23 .. 2^23-1; positive when *this is newer.
  [[nodiscard]] constexpr int32_t operator-(SequenceNumber other) const {
    return static_cast<int32_t>((value_ - other.value_) << 8) >> 8;
  }
  [[nodiscard]] constexpr SequenceNumber operator+(uint32_t count) const {
    return SequenceNumber(value_ + count);
  }
  [[nodiscard]] constexpr SequenceNumber operator-(uint32_t count) const {
    return SequenceNumber(value_ - count);
  }
  constexpr SequenceNumber& operator+=(uint32_t count) { return *this = *this + count; }
  constexpr SequenceNumber& operator++() { return *this += 1; }

  [[nodiscard]] constexpr bool operator==(SequenceNumber other) const { return *this - other == 0; }
  [[nodiscard]] constexpr bool before(SequenceNumber other) const { return *this - other < 0; }
  [[nodiscard]] constexpr bool after(SequenceNumber other) const { return *this - other > 0; }

 private:
  uint32_t value_ = 0;  // any upper 8 bits: they are taken away where the number is read
};

/// The sequence number of a packet (PSN).
using Psn = SequenceNumber<struct PacketKind>;
/// The sequence number of a message: the requester's (SSN), how many the responder has performed (MSN), and
/// the limit that credits set to the requester's (LSN).
using Msn = SequenceNumber<struct MessageKind>;

}  // namespace uroce
