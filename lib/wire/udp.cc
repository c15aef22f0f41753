#include "wire/big_endian.h"
#include "wire/internet_checksum.h"
#include "wire/layers.h"
#include "wire/transport.h"

namespace uroce::wire {
namespace {

bool checksum_holds(std::span<const std::byte> addresses, std::span<const std::byte> datagram) {
  uint64_t sum = add_words(addresses);
  sum += word_on_wire(kProtocolUdp) + word_on_wire(static_cast<uint16_t>(datagram.size()));
  return fold_sum(add_words(datagram, sum)) == 0xFFFF;
}

}  // namespace

ParseOutcome parse_udp(std::span<const std::byte> addresses, std::span<const std::byte> datagram,
                       Packet& packet) {
  const std::byte* header = datagram.data();
  if (load_be16(header + 2) != kRoceUdpPort) return not_roce();
  if (load_be16(header + 4) != datagram.size()) return dropped(Counter::kDropUdpLength);
  // Zero means none; peers send it over IPv6 too.
  const bool has_checksum = load_be16(header + 6) != 0;
  if (has_checksum && !checksum_holds(addresses, datagram)) return dropped(Counter::kDropUdpChecksum);

  packet.udp_source_port = load_be16(header);
  return parse_transport(datagram.subspan(kUdpBytes), packet);
}

}  // namespace uroce::wire
