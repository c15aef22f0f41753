// For a bond of kernel interfaces the sending member is chosen here, because net_af_packet reports its link
// as up whatever becomes of the interface, and net_bonding would send into a dead one for ever.
// The thread that checks links ten times a second asks the kernel and names the primary member. Bonds of
// other devices are left to net_bonding.
#include "drivers/port/ethdev/bond.h"

#include <rte_eth_bond.h>
#include <rte_ethdev.h>

#include <algorithm>
#include <array>
#include <utility>

#include "drivers/dpdk_versions.h"

namespace uroce::drivers {

std::unique_ptr<Bond> Bond::of(uint16_t port_id) {
  std::array<uint16_t, RTE_MAX_ETHPORTS> ports{};
  const int count = dpdk::bond_members(port_id, ports);
  std::vector<Member> members;
  for (int i = 0; i < count; ++i) {
    const uint16_t member = ports[static_cast<size_t>(i)];
    rte_eth_dev_info info{};
    if (rte_eth_dev_info_get(member, &info) != 0 || info.if_index == 0) return nullptr;
    auto interface = KernelInterface::watch(info.if_index);
    if (interface == nullptr) return nullptr;
    members.push_back({member, std::move(interface)});
  }
  if (members.empty()) return nullptr;
  return std::unique_ptr<Bond>(new Bond(port_id, std::move(members)));
}

void Bond::listen_to_all() const {
  for (const Member& member : members_) rte_eth_promiscuous_enable(member.port_id);
}

bool Bond::choose_member() {
  const auto runs = [](const Member& member) { return member.interface->running(); };
  // Relaxed: nothing but a number.
  const auto now = std::ranges::find(members_, sends_by_.load(std::memory_order_relaxed), &Member::port_id);
  if (runs(*now)) return true;
  const auto other = std::ranges::find_if(members_, runs);
  if (other == members_.end()) return false;
  if (rte_eth_bond_primary_set(port_id_, other->port_id) == 0)
    sends_by_.store(other->port_id, std::memory_order_relaxed);
  return true;
}

bool Bond::exists() const {
  return std::ranges::any_of(members_, [](const Member& member) { return member.interface->exists(); });
}

}  // namespace uroce::drivers
