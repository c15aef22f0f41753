// A device that DPDK does not make is explained by the first error in DPDK's log, because the driver's return
// value becomes EPERM or ENODEV on the way.
#include "drivers/port/ethdev/device_probe.h"

#include <net/if.h>
#include <rte_dev.h>
#include <rte_errno.h>
#include <rte_ethdev.h>

#include <utility>

#include "drivers/port/ethdev/fanout_group.h"

namespace uroce::drivers {

uint16_t find_port(const std::string& devargs) {
  rte_dev_iterator iterator{};
  if (rte_eth_iterator_init(&iterator, devargs.c_str()) != 0) return RTE_MAX_ETHPORTS;
  const uint16_t port = rte_eth_iterator_next(&iterator);
  if (port != RTE_MAX_ETHPORTS) rte_eth_iterator_cleanup(&iterator);
  return port;
}

Result<Claims> probe_device(const Devargs& devargs, const PmdTraits& traits,
                            const std::function<std::string()>& dpdk_complaint, MemifSocket* memif) {
  const std::string text = devargs.text();
  const auto probe = [&] {
    if (dpdk_complaint) (void)dpdk_complaint();  // of something else
    const auto make = [&] { return rte_dev_probe(text.c_str()); };
    return memif != nullptr ? memif->make_device(make) : make();
  };
  Claims claims;
  Status status;
  if (traits.fanout_by_process) {
    const unsigned index = if_nametoindex(std::string(*devargs.value("iface")).c_str());
    auto name = probe_in_own_fanout_group(devargs.name(), index, probe);
    if (name) {
      claims.push_back(std::move(*name));
    } else {
      status = name.error();
    }
  } else if (const int failed = probe(); failed != 0) {
    status = Error{ENODEV, rte_strerror(-failed)};
  }
  if (status) return claims;
  const std::string complaint = dpdk_complaint ? dpdk_complaint() : std::string();
  return complaint.empty() ? status.error() : Error{status.error().code, complaint};
}

}  // namespace uroce::drivers
