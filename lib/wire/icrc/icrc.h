#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "wire/icrc/wide.h"

namespace uroce::wire {

/// RoCEv2 invariant CRC (lib/README.md, wire fact 3): CRC-32 with zlib's parameters over eight bytes of ones
/// (a masked LRH), then the packet from its IP header to the last pad byte with the variant fields set to
/// ones.
///
///   Icrc icrc;                       // the LRH is in
///   icrc.add_masked_headers(ip, n);  // IP header .. end of BTH: the only part with masked fields
///   icrc.add(rest);                  // extension headers, payload, pad: any number of pieces
///   icrc.value();                    // goes out least significant byte first
class Icrc {
 public:
  /// `bytes` begins with the IP header (4 or 6, IPv4 without options) and ends with the BTH: 40 or 60 bytes.
  void add_masked_headers(std::span<const std::byte> bytes);

  void add(std::span<const std::byte> bytes);

  [[nodiscard]] uint32_t value() const { return crc_; }

 private:
  // Register (after the final xor, as ISA-L and zlib pass it) behind the eight 0xFF bytes.
  uint32_t crc_ = ~0xDEBB20E3u;
};

/// Copies a payload to where it stands in a packet and takes it into `icrc`, a uint32_t that was icrc_of()
/// what stands before it.
using CopyWithIcrc = void (*)(std::byte* to, const std::byte* from, size_t bytes, void* icrc);
/// The widest that this CPU has; nullptr: none.
CopyWithIcrc widest_copy_with_icrc();
/// By non-temporal stores, of at least kWideIcrcBytesMin bytes, for a reader that shares no cache with this
/// CPU. The caller makes an sfence before it shows the copy.
CopyWithIcrc widest_stream_with_icrc();
/// For payloads of so many bytes, or nullptr: then the way is a copy, and icrc_of() the whole.
inline CopyWithIcrc copy_with_icrc(size_t bytes) {
  return bytes >= kWideIcrcBytesMin ? widest_copy_with_icrc() : nullptr;
}

/// ICRC of a whole IP packet, at least to the end of its BTH (`ip_packet` ends before the ICRC itself).
uint32_t icrc_of(std::span<const std::byte> ip_packet);
/// icrc_of() at least kWideIcrcBytesMin bytes. `next`, the packet whose turn is next or nothing, is brought
/// into the cache meanwhile, where the CPU has the width.
uint32_t icrc_of_long(std::span<const std::byte> ip_packet, std::span<const std::byte> next);

}  // namespace uroce::wire
