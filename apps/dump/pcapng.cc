// Decision: blocks of pcapng are written here. libpcap only reads them, and DPDK 22.11's rte_pcapng lacks
// comments and interfaces that are no DPDK ports. Cost: four kinds of blocks are kept to the format here.
#include "apps/dump/pcapng.h"

#include <algorithm>
#include <cstring>

namespace uroce::dump {
namespace {

constexpr uint32_t kSection = 0x0A0D0D0A;
constexpr uint32_t kInterface = 1;
constexpr uint32_t kStatistics = 5;
constexpr uint32_t kEnhancedPacket = 6;
constexpr uint32_t kByteOrder = 0x1A2B3C4D;
constexpr uint16_t kEthernet = 1;

constexpr uint16_t kEndOfOptions = 0;
constexpr uint16_t kComment = 1;
constexpr uint16_t kUserApplication = 4;
constexpr uint16_t kInterfaceName = 2;
constexpr uint16_t kInterfaceDescription = 3;
constexpr uint16_t kTimeResolution = 9;
constexpr uint16_t kPacketFlags = 2;
constexpr uint16_t kDropCount = 4;
constexpr uint16_t kReceived = 4;
constexpr uint16_t kDropped = 5;
constexpr size_t kTextMax = 512;

template <typename T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

}  // namespace

template <typename T>
void PcapngBlocks::add_number(T value) {
  const auto bytes = bytes_of(value);
  bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
}

void PcapngBlocks::pad() { bytes_.resize((bytes_.size() + 3) / 4 * 4); }

void PcapngBlocks::begin(uint32_t type) {
  begin_ = bytes_.size();
  add_number(type);
  add_number(uint32_t{0});  // its length, when it is known
}

void PcapngBlocks::end() {
  add_number(kEndOfOptions);
  add_number(uint16_t{0});
  const auto length = static_cast<uint32_t>(bytes_.size() - begin_ + sizeof(uint32_t));
  std::memcpy(bytes_.data() + begin_ + 4, &length, sizeof length);
  add_number(length);
}

void PcapngBlocks::add_option(uint16_t code, std::span<const std::byte> value) {
  add_number(code);
  add_number(static_cast<uint16_t>(value.size()));
  bytes_.insert(bytes_.end(), value.begin(), value.end());
  pad();
}

void PcapngBlocks::add_option(uint16_t code, std::string_view value) {
  add_option(code, std::as_bytes(std::span(value.substr(0, kTextMax))));
}

void PcapngBlocks::add_section(std::string_view application) {
  begin(kSection);
  add_number(kByteOrder);
  add_number(uint16_t{1});  // version 1.0
  add_number(uint16_t{0});
  add_number(int64_t{-1});  // how long it is
  add_option(kUserApplication, application);
  end();
}

void PcapngBlocks::add_interface(std::string_view name, std::string_view description, uint32_t snap_bytes) {
  begin(kInterface);
  add_number(kEthernet);
  add_number(uint16_t{0});
  add_number(snap_bytes);
  add_option(kInterfaceName, name);
  add_option(kInterfaceDescription, description);
  add_option(kTimeResolution, bytes_of(uint8_t{9}));  // 10^-9 s
  end();
}

void PcapngBlocks::add_packet(const Packet& packet) {
  begin(kEnhancedPacket);
  add_number(packet.interface);
  const auto time = static_cast<uint64_t>(packet.time_ns);
  add_number(static_cast<uint32_t>(time >> 32));
  add_number(static_cast<uint32_t>(time));
  add_number(static_cast<uint32_t>(packet.bytes.size()));
  add_number(packet.bytes_of_frame);
  bytes_.insert(bytes_.end(), packet.bytes.begin(), packet.bytes.end());
  pad();
  add_option(kPacketFlags, bytes_of(static_cast<uint32_t>(packet.direction)));
  if (packet.lost_before != 0) add_option(kDropCount, bytes_of(packet.lost_before));
  if (!packet.comment.empty()) add_option(kComment, packet.comment);
  end();
}

void PcapngBlocks::add_statistics(uint32_t interface, int64_t time_ns, uint64_t received, uint64_t lost) {
  begin(kStatistics);
  add_number(interface);
  const auto time = static_cast<uint64_t>(time_ns);
  add_number(static_cast<uint32_t>(time >> 32));
  add_number(static_cast<uint32_t>(time));
  add_option(kReceived, bytes_of(received));
  add_option(kDropped, bytes_of(lost));
  end();
}

size_t whole_blocks(std::span<const std::byte> bytes, size_t bytes_max) {
  size_t whole = 0;
  while (whole + 8 <= bytes.size()) {
    uint32_t length = 0;
    std::memcpy(&length, bytes.data() + whole + 4, sizeof length);
    if (length < 12 || whole + length > bytes_max) break;
    whole += length;
  }
  return whole;
}

}  // namespace uroce::dump
