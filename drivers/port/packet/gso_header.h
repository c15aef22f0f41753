#pragma once

#include <cstdint>

namespace uroce::drivers {

/// What stands before each frame on a packet socket with PACKET_VNET_HDR: virtio_net_hdr of
/// <linux/virtio_net.h>, which is not C++. In the CPU's byte order.
struct GsoHeader {
  static constexpr uint8_t kNeedsChecksum = 1;
  static constexpr uint8_t kNone = 0;
  static constexpr uint8_t kUdp = 5;  // UDP segmentation (Linux 6.2)

  /// The longest GSO frame, as IP packet: with its headers it fills a place of 32 KiB in the receiver's ring,
  /// of which the same memory holds twice as many as of 64 KiB.
  static constexpr uint32_t kIpBytesMax = (1u << 15) - 256;

  uint8_t flags;
  uint8_t type;
  uint16_t header_bytes;   // that lie together in the kernel's buffer
  uint16_t segment_bytes;  // behind the headers, of all segments but the last
  uint16_t checksum_start;
  uint16_t checksum_offset;
};
static_assert(sizeof(GsoHeader) == 10);

}  // namespace uroce::drivers
