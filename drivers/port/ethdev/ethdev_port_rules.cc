// A port beside the kernel on a NIC that both have: what the NIC is told of it.
#include <net/if.h>
#include <rte_ethdev.h>

#include <algorithm>
#include <cerrno>

#include "drivers/port/ethdev/ethdev_port.h"

namespace uroce::drivers {

/// The interface is not changed, so its MTU is what there is.
void EthdevPort::keep_interfaces_mtu() {
  const std::string& name = specification_.kernels_interface;
  const Result<uint32_t> mtu = interface_mtu_of(devargs_.name(), name);
  limits_.mtu_default = std::min(mtu ? *mtu : limits_.mtu_max, limits_.mtu_max);
  if (limits_.mtu_default < limits_.mtu_max) limits_.mtu_reason = "the MTU of interface " + name;
  limits_.mtu_max = limits_.mtu_default;
}

Status EthdevPort::stand_beside_kernel(const rte_eth_dev_info& info) {
  const std::string& name = specification_.kernels_interface;
  const unsigned index = if_nametoindex(name.c_str());
  // net_tap imitates such a NIC on any interface.
  if (info.if_index != index && devargs_.value("remote") != name)
    return error(EINVAL, "is not the NIC of interface " + name);
  interface_ = KernelInterface::watch(index);
  return traits_.isolates_when_started ? Status() : isolate();
}

Status EthdevPort::isolate() {
  const Status isolated = FlowRules::isolate(port_id_);
  if (isolated) return {};
  return error(ENOTSUP, "cannot leave the rest to the kernel: " + isolated.error().message);
}

Status EthdevPort::make_rules() {
  Status made = traits_.isolates_when_started ? isolate() : Status();
  if (!made) return made;
  rules_ = std::make_unique<FlowRules>(port_id_, specification_.queues);
  made = rules_->take_groups();
  if (made) made = rules_->take(specification_.kernels_addresses);
  if (!made) return error(ENOTSUP, "a rule for RoCE: " + made.error().message);
  capabilities_.description += ": rules beside the kernel deliver RoCE alone";
  if (!rules_->why_one_queue().empty())
    capabilities_.description += ", all to one queue (" + rules_->why_one_queue() + ")";
  return {};
}

/// An address that the NIC has no room for is reached through the kernel's socket: not at all.
void EthdevPort::follow_addresses(std::span<const Gid> addresses) {
  if (rules_ != nullptr) (void)rules_->take(addresses);
}

}  // namespace uroce::drivers
