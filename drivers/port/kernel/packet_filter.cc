#include "drivers/port/kernel/packet_filter.h"

#include <linux/filter.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <netinet/in.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace uroce::drivers {
namespace {

constexpr uint32_t kRocePort = 4791;
constexpr uint32_t kWhole = 0x40000;  // more than any frame

constexpr sock_filter load(uint16_t size, uint32_t offset) {
  return {static_cast<uint16_t>(BPF_LD | BPF_ABS | size), 0, 0, offset};
}
/// Skips so many instructions when the value loaded is this one, or is not.
constexpr sock_filter equals(uint32_t value, uint8_t skip_if, uint8_t skip_if_not) {
  return {BPF_JMP | BPF_JEQ | BPF_K, skip_if, skip_if_not, value};
}
constexpr sock_filter take(uint32_t bytes) { return {BPF_RET | BPF_K, 0, 0, bytes}; }

// Offsets in an Ethernet frame without tag: the kernel has taken it out. A fragment's UDP port is read, too,
// as it is dropped, and counted, later.
constexpr std::array kOnlyRoce = {
    // Frames that this host sends come by here, too.
    load(BPF_W, static_cast<uint32_t>(SKF_AD_OFF + SKF_AD_PKTTYPE)),  // 0
    equals(PACKET_OUTGOING, 14, 0),                                   // 1
    load(BPF_H, 12),                                                  // 2: EtherType
    equals(ETHERTYPE_IP, 2, 0),                                       // 3
    equals(ETHERTYPE_IPV6, 6, 0),                                     // 4
    take(0),                                                          // 5
    load(BPF_B, 23),                                                  // 6: IPv4's protocol
    equals(IPPROTO_UDP, 0, 8),                                        // 7
    sock_filter{BPF_LDX | BPF_B | BPF_MSH, 0, 0, 14},                 // 8: the length of its header
    sock_filter{BPF_LD | BPF_IND | BPF_H, 0, 0, 14 + 2},              // 9: UDP's destination port
    equals(kRocePort, 4, 5),                                          // 10
    load(BPF_B, 20),                                                  // 11: IPv6's next header
    equals(IPPROTO_UDP, 0, 3),                                        // 12
    load(BPF_H, 56),                                                  // 13: UDP's destination port
    equals(kRocePort, 0, 1),                                          // 14
    take(kWhole),                                                     // 15
    take(0),                                                          // 16
};

bool is_packet_socket_on(int descriptor, unsigned interface_index) {
  sockaddr_ll address{};
  socklen_t length = sizeof address;
  return getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &length) == 0 &&
         address.sll_family == AF_PACKET && address.sll_ifindex == static_cast<int>(interface_index);
}

}  // namespace

std::vector<int> packet_sockets(const OpenDescriptors& before, unsigned interface_index) {
  std::vector<int> sockets;
  for (const auto& [number, descriptor] : open_descriptors()) {
    const auto known = before.find(number);
    if (known != before.end() && known->second == descriptor) continue;
    if (is_packet_socket_on(number, interface_index)) sockets.push_back(number);
  }
  return sockets;
}

Status only_roce(std::span<const int> sockets, const std::string& port) {
  auto program = kOnlyRoce;
  const sock_fprog filter{.len = program.size(), .filter = program.data()};
  for (const int socket : sockets) {
    if (setsockopt(socket, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter) != 0)
      return Error{errno, port + ": cannot filter what it receives: " + std::strerror(errno)};
  }
  if (sockets.empty()) return Error{ENOTSUP, port + ": its packet sockets are not to be found"};
  return {};
}

void discard_unfiltered(uint16_t port_id, uint16_t queues) {
  constexpr unsigned kMore = 1u << 14;  // than the rings of the sockets hold
  std::array<rte_mbuf*, 32> frames;
  for (uint16_t queue = 0; queue < queues; ++queue) {
    for (unsigned seen = 0; seen < kMore;) {
      const uint16_t count = rte_eth_rx_burst(port_id, queue, frames.data(), frames.size());
      if (count == 0) break;
      rte_pktmbuf_free_bulk(frames.data(), count);
      seen += count;
    }
  }
}

}  // namespace uroce::drivers
