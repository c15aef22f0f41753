// Rules belong to an interface of the kernel (device.nic): a NIC that is DPDK's alone has no kernel to leave
// other frames to, and isolation would keep ARP and neighbour discovery from the stack.
// No rule names a queue pair, because rte_flow of DPDK 22.11 has no item for the BTH. Cost: frames for
// another poller's queue pair are handed over, as with RSS.
#include "drivers/port/ethdev/flow_rules.h"

#include <rte_byteorder.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_flow.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <numeric>

#include "drivers/dpdk_versions.h"
#include "wire/packet.h"

namespace uroce::drivers {
namespace {

constexpr unsigned kIpv4Begin = 96;  // of an IPv4 address in a GID, in bits
constexpr unsigned kAddressBits = 128;
constexpr Gid kGroups4 = Gid::from_ipv4({224, 0, 0, 0});
constexpr unsigned kGroups4Bits = kIpv4Begin + 4;
constexpr Gid kGroups6{{0xFF}};
constexpr unsigned kGroups6Bits = 8;

Error refused(const rte_flow_error& error) {
  const int code = rte_errno == 0 ? ENOTSUP : rte_errno;
  return {code, error.message != nullptr ? error.message : rte_strerror(code)};
}

std::array<uint8_t, 16> mask_of(unsigned bits) {
  std::array<uint8_t, 16> mask{};
  for (unsigned i = 0; i < bits; ++i) mask[i / 8] |= static_cast<uint8_t>(0x80 >> i % 8);
  return mask;
}

/// Ethernet, IP to a destination, UDP to RoCE's port.
class Pattern {
 public:
  Pattern(const Gid& destination, unsigned prefix_bits) {
    const std::array<uint8_t, 16> mask = mask_of(prefix_bits);
    const bool four = destination.is_ipv4();
    std::memcpy(&ipv4_.hdr.dst_addr, &destination.bytes[12], 4);
    std::memcpy(&ipv4_mask_.hdr.dst_addr, &mask[12], 4);
    dpdk::set_destination(ipv6_, destination.bytes);
    dpdk::set_destination(ipv6_mask_, mask);
    udp_.hdr.dst_port = rte_cpu_to_be_16(wire::kRoceUdpPort);
    udp_mask_.hdr.dst_port = 0xFFFF;
    items_[0] = {.type = RTE_FLOW_ITEM_TYPE_ETH, .spec = nullptr, .last = nullptr, .mask = nullptr};
    items_[1] =
        four ? rte_flow_item{.type = RTE_FLOW_ITEM_TYPE_IPV4,
                             .spec = &ipv4_,
                             .last = nullptr,
                             .mask = &ipv4_mask_}
             : rte_flow_item{
                   .type = RTE_FLOW_ITEM_TYPE_IPV6, .spec = &ipv6_, .last = nullptr, .mask = &ipv6_mask_};
    items_[2] = {.type = RTE_FLOW_ITEM_TYPE_UDP, .spec = &udp_, .last = nullptr, .mask = &udp_mask_};
    items_[3] = {.type = RTE_FLOW_ITEM_TYPE_END, .spec = nullptr, .last = nullptr, .mask = nullptr};
  }
  Pattern(const Pattern&) = delete;
  Pattern& operator=(const Pattern&) = delete;

  [[nodiscard]] const rte_flow_item* items() const { return items_.data(); }

 private:
  rte_flow_item_ipv4 ipv4_{};
  rte_flow_item_ipv4 ipv4_mask_{};
  rte_flow_item_ipv6 ipv6_{};
  rte_flow_item_ipv6 ipv6_mask_{};
  rte_flow_item_udp udp_{};
  rte_flow_item_udp udp_mask_{};
  std::array<rte_flow_item, 4> items_{};
};

}  // namespace

Status FlowRules::isolate(uint16_t port_id) {
  rte_flow_error error{};
  rte_errno = 0;
  if (rte_flow_isolate(port_id, 1, &error) == 0) return {};
  return refused(error);
}

Result<rte_flow*> FlowRules::make(const Gid& destination, unsigned prefix_bits, bool spread) const {
  const Pattern pattern(destination, prefix_bits);
  std::vector<uint16_t> queues(queues_);
  std::iota(queues.begin(), queues.end(), uint16_t{0});
  rte_flow_action_rss all{};
  all.types = destination.is_ipv4() ? RTE_ETH_RSS_NONFRAG_IPV4_UDP : RTE_ETH_RSS_NONFRAG_IPV6_UDP;
  all.queue_num = queues_;
  all.queue = queues.data();
  const rte_flow_action_queue first{.index = 0};
  const std::array<rte_flow_action, 2> actions = {
      spread ? rte_flow_action{.type = RTE_FLOW_ACTION_TYPE_RSS, .conf = &all}
             : rte_flow_action{.type = RTE_FLOW_ACTION_TYPE_QUEUE, .conf = &first},
      rte_flow_action{.type = RTE_FLOW_ACTION_TYPE_END, .conf = nullptr}};
  // net_tap's rules of one priority must be of one Ethernet type.
  rte_flow_attr attributes{};
  attributes.priority = destination.is_ipv4() ? 0 : 1;
  attributes.ingress = 1;
  rte_flow_error error{};
  rte_errno = 0;
  rte_flow* const made = rte_flow_create(port_id_, &attributes, pattern.items(), actions.data(), &error);
  if (made == nullptr) return refused(error);
  return made;
}

Status FlowRules::add(const Gid& destination, unsigned prefix_bits) {
  const bool spread = queues_ > 1 && why_one_queue_.empty();
  auto made = make(destination, prefix_bits, spread);
  if (!made && spread) {
    const Error refusal = made.error();
    made = make(destination, prefix_bits, false);
    if (made) why_one_queue_ = refusal.message;
  }
  if (!made) return made.error();
  rules_.push_back({destination, prefix_bits, *made});
  return {};
}

Status FlowRules::take_groups() {
  if (Status status = add(kGroups4, kGroups4Bits); !status) return status;
  return add(kGroups6, kGroups6Bits);
}

Status FlowRules::take(std::span<const Gid> addresses) {
  const auto is_address = [](const Rule& rule) { return rule.prefix_bits == kAddressBits; };
  const auto gone = std::stable_partition(rules_.begin(), rules_.end(), [&](const Rule& rule) {
    return !is_address(rule) || std::ranges::find(addresses, rule.destination) != addresses.end();
  });
  drop(static_cast<size_t>(rules_.end() - gone));
  Status outcome;
  for (const Gid& address : addresses) {
    const bool taken = std::ranges::any_of(
        rules_, [&](const Rule& rule) { return is_address(rule) && rule.destination == address; });
    if (taken) continue;
    if (Status status = add(address, kAddressBits); !status && outcome) outcome = status;
  }
  return outcome;
}

/// The last ones.
void FlowRules::drop(size_t count) {
  for (; count > 0; --count) {
    rte_flow_error error{};
    rte_flow_destroy(port_id_, rules_.back().flow, &error);
    rules_.pop_back();
  }
}

}  // namespace uroce::drivers
