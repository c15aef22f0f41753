// Decision: of a NIC's offloads only RSS and fast free are used. For checksums each mbuf would need header
// lengths and flags, while the kept IPv4 header costs one addition. Completions have the CPU's clock, which
// ibv_query_rt_values_ex reads, too.
//
// Decision: fast free is used because frames lie in buffers of one pool without other references, which
// builds with contracts assert. Not tested: no driver at hand has it.
#include "drivers/port/ethdev/nic_facts.h"

#include <rte_ethdev.h>

#include <algorithm>
#include <array>
#include <bit>

namespace uroce::drivers {
namespace {

constexpr uint64_t kByUdp = RTE_ETH_RSS_NONFRAG_IPV4_UDP | RTE_ETH_RSS_NONFRAG_IPV6_UDP;
constexpr uint64_t kByAddress = RTE_ETH_RSS_IPV4 | RTE_ETH_RSS_IPV6;
/// All frames that a queue sends are mbufs of one segment, of the queue's own pool and without another
/// reference: EthdevQueue::send() asserts it.
constexpr uint64_t kUsedWhenSending = RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE;

/// Why some offloads are of no use.
struct Reason {
  uint64_t receiving;
  uint64_t sending;
  const char* why;
};
constexpr std::array kReasons = {
    Reason{RTE_ETH_RX_OFFLOAD_CHECKSUM | RTE_ETH_RX_OFFLOAD_OUTER_IPV4_CKSUM |
               RTE_ETH_RX_OFFLOAD_OUTER_UDP_CKSUM,
           RTE_ETH_TX_OFFLOAD_IPV4_CKSUM | RTE_ETH_TX_OFFLOAD_UDP_CKSUM |
               RTE_ETH_TX_OFFLOAD_OUTER_IPV4_CKSUM | RTE_ETH_TX_OFFLOAD_OUTER_UDP_CKSUM,
           "the sum of a header is known but for its lengths, and RoCE's UDP has none"},
    Reason{RTE_ETH_RX_OFFLOAD_VLAN_STRIP | RTE_ETH_RX_OFFLOAD_QINQ_STRIP,
           RTE_ETH_TX_OFFLOAD_VLAN_INSERT | RTE_ETH_TX_OFFLOAD_QINQ_INSERT,
           "the tag is a part of headers that are kept"},
    Reason{RTE_ETH_RX_OFFLOAD_SCATTER | RTE_ETH_RX_OFFLOAD_BUFFER_SPLIT, RTE_ETH_TX_OFFLOAD_MULTI_SEGS,
           "a buffer takes the longest frame"},
    Reason{RTE_ETH_RX_OFFLOAD_TIMESTAMP, RTE_ETH_TX_OFFLOAD_SEND_ON_TIMESTAMP,
           "completions have the time of the CPU's clock"},
};

/// Adds the names of the bits.
void name(std::string& text, uint64_t bits, const char* (*name_of)(uint64_t)) {
  for (; bits != 0; bits &= bits - 1) {
    text += text.empty() ? "" : " ";
    text += name_of(bits & -bits);
  }
}

/// One line of what is left of `receiving` and `sending`, which nothing is.
void tell(std::vector<std::string>& lines, uint64_t receiving, uint64_t sending, const std::string& why) {
  std::string received;
  std::string sent;
  name(received, receiving, rte_eth_dev_rx_offload_name);
  name(sent, sending, rte_eth_dev_tx_offload_name);
  if (received.empty() && sent.empty()) return;
  std::string line = "not used:";
  if (!received.empty()) line += " receiving " + received;
  if (!received.empty() && !sent.empty()) line += ",";
  if (!sent.empty()) line += " sending " + sent;
  lines.push_back(line + " (" + why + ")");
}

std::string spreading(const rte_eth_dev_info& info, const NicServices& used, uint16_t queues) {
  if (used.hashes != 0)
    return "RSS over " + std::to_string(queues) + " queues by " +
           ((used.hashes & kByUdp) != 0 ? "UDP ports" : "addresses, as its driver has no hash of UDP ports");
  if (queues > 1) return "no RSS, which its driver lacks: pollers hand frames on to each other";
  return (info.flow_type_rss_offloads & (kByUdp | kByAddress)) != 0 ? "no RSS over one queue" : "";
}

}  // namespace

uint32_t nic_buffer_bytes(std::string_view driver, uint32_t frame_bytes, uint32_t least) {
  constexpr uint32_t kUnit = 1024;
  const uint32_t bytes = std::max(frame_bytes, least);
  if (driver == "net_e1000_em") return std::bit_ceil(bytes);
  return (bytes + kUnit - 1) / kUnit * kUnit;
}

/// e1000's leaves the queue's interrupt unrouted where there is MSI-X, which vfio takes then.
bool receive_interrupts_come(std::string_view driver) { return driver != "net_e1000_em"; }

NicServices chosen_services(const rte_eth_dev_info& info, uint16_t queues) {
  NicServices chosen{.sending = info.tx_offload_capa & kUsedWhenSending};
  if (queues == 1) return chosen;
  const uint64_t by_udp = info.flow_type_rss_offloads & kByUdp;
  chosen.hashes = by_udp != 0 ? by_udp : info.flow_type_rss_offloads & kByAddress;
  return chosen;
}

std::vector<std::string> tell_services(const rte_eth_dev_info& info, const NicServices& used,
                                       uint16_t queues) {
  std::string text;
  name(text, used.sending, rte_eth_dev_tx_offload_name);
  text = "used: " + (text.empty() ? "none" : text);
  if (const std::string spread = spreading(info, used, queues); !spread.empty()) text += "; " + spread;
  uint64_t receiving = info.rx_offload_capa;
  uint64_t sending = info.tx_offload_capa & ~used.sending;
  if (receiving == 0 && info.tx_offload_capa == 0 && used.hashes == 0) return {};
  std::vector<std::string> lines{std::move(text)};
  for (const Reason& reason : kReasons) {
    tell(lines, receiving & reason.receiving, sending & reason.sending, reason.why);
    receiving &= ~reason.receiving;
    sending &= ~reason.sending;
  }
  tell(lines, receiving, sending, "of no use to RoCE");
  return lines;
}

}  // namespace uroce::drivers
