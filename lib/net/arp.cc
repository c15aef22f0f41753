#include "net/arp.h"

#include <algorithm>
#include <cstring>

#include "base/values/contract.h"
#include "net/derived_mac.h"
#include "wire/big_endian.h"

namespace uroce::net {
namespace {

constexpr size_t kEthernetBytes = 14;
constexpr size_t kArpBytes = 28;
constexpr uint64_t kEthernetIpv4 =
    0x0001'0800'0604;  // hardware type, protocol type, the lengths of both addresses
constexpr uint16_t kRequest = 1;
constexpr uint16_t kReply = 2;

constexpr size_t kOperation = 6;
constexpr size_t kSenderMac = 8;
constexpr size_t kSenderIp = 14;
constexpr size_t kTargetMac = 18;
constexpr size_t kTargetIp = 24;

MacAddress load_mac(const std::byte* from) {
  MacAddress mac;
  std::memcpy(mac.bytes.data(), from, mac.bytes.size());
  return mac;
}

Gid load_ipv4(const std::byte* from) {
  std::array<uint8_t, 4> address;
  std::memcpy(address.data(), from, address.size());
  return Gid::from_ipv4(address);
}

}  // namespace

std::optional<ArpMessage> parse_arp(std::span<const std::byte> frame) {
  if (frame.size() < kEthernetBytes + kArpBytes || wire::load_be16(frame.data() + 12) != kEtherTypeArp) {
    return std::nullopt;
  }
  const std::byte* arp = frame.data() + kEthernetBytes;
  if (wire::load_be64(arp) >> 16 != kEthernetIpv4) return std::nullopt;
  const uint16_t operation = wire::load_be16(arp + kOperation);
  if (operation != kRequest && operation != kReply) return std::nullopt;
  const ArpMessage message{.reply = operation == kReply,
                           .sender_mac = load_mac(arp + kSenderMac),
                           .sender = load_ipv4(arp + kSenderIp),
                           .target_mac = load_mac(arp + kTargetMac),
                           .target = load_ipv4(arp + kTargetIp)};
  // No neighbour's own address is a group's.
  if (is_multicast(message.sender_mac) || is_multicast(message.sender)) return std::nullopt;
  return message;
}

void write_arp(std::span<std::byte> frame, const ArpMessage& message, MacAddress destination) {
  UROCE_ASSERT(frame.size() >= kArpFrameBytes && message.sender.is_ipv4() && message.target.is_ipv4());
  std::memset(frame.data(), 0, kArpFrameBytes);
  std::memcpy(frame.data(), destination.bytes.data(), 6);
  std::memcpy(frame.data() + 6, message.sender_mac.bytes.data(), 6);
  wire::store_be16(frame.data() + 12, kEtherTypeArp);
  std::byte* arp = frame.data() + kEthernetBytes;
  wire::store_be64(arp, kEthernetIpv4 << 16 | (message.reply ? kReply : kRequest));
  std::memcpy(arp + kSenderMac, message.sender_mac.bytes.data(), 6);
  std::memcpy(arp + kSenderIp, message.sender.bytes.data() + 12, 4);
  std::memcpy(arp + kTargetMac, message.target_mac.bytes.data(), 6);
  std::memcpy(arp + kTargetIp, message.target.bytes.data() + 12, 4);
}

}  // namespace uroce::net
