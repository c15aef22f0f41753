#include "drivers/port/loopback/steering.h"

namespace uroce::drivers {
namespace {

constexpr size_t kEtherTypeOffset = 12;
constexpr size_t kVlanBytes = 4;
constexpr uint8_t kProtocolUdp = 17;

uint32_t byte_at(std::span<const std::byte> frame, size_t offset) {
  return std::to_integer<uint32_t>(frame[offset]);
}

uint32_t word_at(std::span<const std::byte> frame, size_t offset) {
  return byte_at(frame, offset) << 8 | byte_at(frame, offset + 1);
}

}  // namespace

uint32_t steering_hash(std::span<const std::byte> frame) {
  size_t type_offset = kEtherTypeOffset;
  if (frame.size() < type_offset + 2 + kVlanBytes) return 0;
  if (word_at(frame, type_offset) == 0x8100) type_offset += kVlanBytes;
  const uint32_t type = word_at(frame, type_offset);
  const size_t ip = type_offset + 2;
  size_t udp = 0;
  if (type == 0x0800 && frame.size() >= ip + 20 && byte_at(frame, ip + 9) == kProtocolUdp) {
    udp = ip + (byte_at(frame, ip) & 0x0F) * 4;
  } else if (type == 0x86DD && frame.size() >= ip + 40 && byte_at(frame, ip + 6) == kProtocolUdp) {
    udp = ip + 40;
  }
  if (udp == 0 || frame.size() < udp + 2) return 0;
  // Neighbouring ports must not all land on one queue when the number of queues is even.
  return word_at(frame, udp) * 0x9E3779B1u >> 16;
}

}  // namespace uroce::drivers
