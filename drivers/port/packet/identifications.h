#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace uroce::drivers {

/// What the ICRC of an IPv4 packet changes by when its identification becomes another: the kernel numbers the
/// segments of a GSO frame, and the ICRC covers the number. A CRC is linear, so this depends on the length of
/// the packet and the bits that change alone.
class Identifications {
 public:
  static constexpr size_t kNumbers = 64;
  /// By number, from 0 to kNumbers - 1, what turns the ICRC of the packet numbered 0 into its own, by XOR.
  using Differences = std::array<uint32_t, kNumbers>;

  /// What packets differ by that have `ip_bytes` bytes from the IP header to the ICRC exclusive. Valid until
  /// the next call.
  const Differences& of(size_t ip_bytes) {
    Line& line = lines_[ip_bytes / 4 % lines_.size()];
    if (line.ip_bytes != ip_bytes) make(line, ip_bytes);
    return line.differences;
  }

 private:
  struct Line {
    size_t ip_bytes = 0;
    Differences differences{};
  };
  static void make(Line& line, size_t ip_bytes);

  std::array<Line, 16> lines_{};
};

}  // namespace uroce::drivers
