#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/values/result.h"
#include "port/port.h"
#include "port/specification.h"

namespace uroce::drivers {

/// The wire's name, the same for both ends of a net_ring pair; empty for every other device.
std::string ethdev_wire(std::string_view devargs);

/// False for devices without an address of their own (memif, rings): DPDK makes up one at random.
bool ethdev_has_mac(std::string_view devargs);

/// The MAC that the device will have, where it goes through an interface of the kernel.
std::optional<MacAddress> ethdev_known_mac(std::string_view devargs);

/// Any port that DPDK can drive, named by its devargs: PCI addresses and virtual devices, which are made when
/// opened and removed when closed. EAL runs already. What a driver needs to be told, and what it really
/// carries, stands in pmd_traits.cc. "net_ring2k" and "net_ring2k+1" are the ends of one wire inside the
/// process.
Result<std::unique_ptr<port::Port>> open_ethdev(const port::Specification& specification);

}  // namespace uroce::drivers
