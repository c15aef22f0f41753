#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "base/values/result.h"
#include "drivers/process/verbs_in_process.h"

// What the kernel tells of PCI devices, before DPDK looks at them: what DPDK says of one that it cannot have
// is seldom the reason, and some of its drivers reset a device that the kernel is using.
namespace uroce::drivers {

/// The address with its domain, "0000:3b:00.1", if that is what DPDK devargs begin with; else nothing.
std::optional<std::string> pci_address(std::string_view devargs);

/// Where the kernel shows devices, and what this process is; tests have folders of their own.
struct PciPaths {
  std::filesystem::path devices = "/sys/bus/pci/devices";
  std::filesystem::path files = "/dev";
  bool our_verbs = has_our_verbs();
};

/// Whether a driver of DPDK may have the device that the devargs name; all well when they name no PCI device.
/// The error is one line that names the device and says what would work: ENODEV (does not exist, no driver
/// for programs holds it), EBUSY (the kernel's), ENOENT or EACCES (the file by which programs reach it),
/// ENOTSUP (its driver does not work in this process).
Status may_have_pci_device(std::string_view devargs, const PciPaths& here = {});

/// What is known before the device is opened: true unless the kernel says that it is something else.
bool may_be_network_controller(std::string_view devargs, const PciPaths& here = {});

}  // namespace uroce::drivers
