#include "drivers/port/packet/identifications.h"

#include <algorithm>
#include <bit>
#include <span>

#include "base/values/contract.h"
#include "drivers/port/buffer_pool.h"
#include "wire/icrc/icrc.h"

namespace uroce::drivers {

void Identifications::make(Line& line, size_t ip_bytes) {
  static_assert(std::has_single_bit(kNumbers));
  UROCE_ASSERT(ip_bytes <= Buffer::kFrameBytes);
  std::array<std::byte, Buffer::kFrameBytes> packet{};
  packet[0] = std::byte{0x45};  // IPv4, all else zeros
  const std::span<const std::byte> covered(packet.data(), ip_bytes);
  const uint32_t of_zero = wire::icrc_of(covered);
  line.ip_bytes = ip_bytes;
  line.differences[0] = 0;
  for (size_t bit = 1; bit < kNumbers; bit *= 2) {
    packet[5] = static_cast<std::byte>(bit);  // the lower half of the identification
    const uint32_t difference = wire::icrc_of(covered) ^ of_zero;
    for (size_t number = 0; number < bit; ++number)
      line.differences[bit + number] = line.differences[number] ^ difference;
  }
}

}  // namespace uroce::drivers
