#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace uroce::decode {

/// Where a frame has its headers.
struct HeaderPlaces {
  size_t ip = 0;
  size_t udp = 0;
  bool ipv4 = false;  // without options, else IPv6 without extension headers, or neither, if not `plain`
  bool plain = false;
};

/// A frame in which UDP segments of one flow share their headers, as a kernel passes it on without dividing
/// it (GSO, GRO): what a capture on a veth has. A capture does not say how long the segments are. They are of
/// one length, the last one may be shorter, and each begins with a BTH of the same partition; the ICRC of the
/// first one decides.
///
/// The kernel that divides such a frame of IPv4 counts up its identification, so each segment is given its
/// own. A frame that begins at 0 is one whose receiver takes them all back to 0.
class Aggregate {
 public:
  /// Whether the frame has two segments at least, of which its first `captured` bytes hold the first one. It
  /// has to last while segments are taken.
  bool begin(std::span<const std::byte> frame, size_t captured, const HeaderPlaces& places);

  /// The next segment with headers of its own, valid until the next call. Empty: no more of them were
  /// captured.
  std::span<const std::byte> next();

  /// Whether the capture cut off segments behind those that next() returned.
  [[nodiscard]] bool is_cut() const { return cut_; }

 private:
  bool find_segment_bytes();
  [[nodiscard]] bool can_be(size_t segment_bytes) const;
  [[nodiscard]] uint16_t first_number() const;
  void build(size_t at, size_t bytes, uint16_t number);
  [[nodiscard]] std::span<const std::byte> ip_packet() const;

  std::span<const std::byte> headers_;  // to UDP inclusive
  std::span<const std::byte> payload_;  // behind UDP, as far as it was captured
  size_t payload_bytes_ = 0;            // as on the wire
  HeaderPlaces places_;
  bool cut_ = false;
  size_t segment_bytes_ = 0;
  size_t taken_ = 0;
  uint16_t number_ = 0;
  std::vector<std::byte> packet_;
};

/// Whether the UDP checksum is the sum of the pseudo-header alone: the sender left the rest to a NIC, and the
/// frame was captured before there was one. GSO frames have it.
bool checksum_is_left(std::span<const std::byte> frame, const HeaderPlaces& places);

}  // namespace uroce::decode
