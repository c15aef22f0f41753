// The kernel is asked whether a PCI device may be taken, before EAL starts: EAL lets its drivers touch each
// device that it is given, and net_virtio resets one that the kernel is using.
#include "drivers/pci/pci_device.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <regex>

namespace uroce::drivers {
namespace {

namespace fs = std::filesystem;

/// The kernel's drivers that work beside DPDK's, which reach the device by rdma-core's libibverbs: it stays
/// the kernel's.
constexpr std::array<std::string_view, 3> kShared = {"mlx4_core", "mlx5_core", "mana"};
constexpr std::array<std::string_view, 2> kUio = {"uio_pci_generic", "igb_uio"};

bool is_vfio(std::string_view driver) {
  return driver == "vfio-pci" || driver.ends_with("_vfio_pci") || driver.ends_with("-vfio-pci");
}

template <typename List>
bool has(const List& list, std::string_view wanted) {
  return std::ranges::find(list, wanted) != list.end();
}

/// The last part of what a symbolic link leads to; empty: there is none.
std::string link_target(const fs::path& link) {
  std::error_code failed;
  return fs::read_symlink(link, failed).filename().string();
}

/// The kernel's network interface on the device, if it has one; that of virtio is one folder deeper.
std::string interface_on(const fs::path& device) {
  std::error_code failed;
  const auto first_in = [&](const fs::path& folder) {
    const fs::directory_iterator entry(folder, failed);
    return failed || entry == fs::directory_iterator() ? std::string() : entry->path().filename().string();
  };
  if (std::string name = first_in(device / "net"); !name.empty()) return name;
  for (const fs::directory_entry& entry : fs::directory_iterator(device, failed)) {
    if (!entry.path().filename().string().starts_with("virtio")) continue;
    if (std::string name = first_in(entry.path() / "net"); !name.empty()) return name;
  }
  return {};
}

std::string how_to_bind(const std::string& address) {
  return "modprobe vfio-pci; dpdk-devbind.py --bind=vfio-pci " + address;
}

Error without_driver(const std::string& address, const fs::path& device) {
  if (!link_target(device / "iommu_group").empty())
    return {ENODEV, address + ": no driver holds it; give it to vfio-pci: " + how_to_bind(address)};
  return {ENODEV,
          address +
              ": no driver holds it, and without an IOMMU vfio-pci will not: switch the IOMMU on (in the "
              "firmware, and intel_iommu=on for the kernel), or use uio_pci_generic"};
}

Error of_the_kernel(const std::string& address, const fs::path& device, const std::string& driver) {
  const std::string interface = interface_on(device);
  return {EBUSY, address + ": the kernel's driver " + driver + " holds it" +
                     (interface.empty()
                          ? "; give it"
                          : ": use it beside the kernel by interface = \"" + interface + "\", or give it") +
                     " to vfio-pci: " + how_to_bind(address)};
}

Status with_other_verbs(const std::string& address, const fs::path& device) {
  const std::string interface = interface_on(device);
  return Error{
      ENOTSUP,
      address +
          ": DPDK's driver of it needs rdma-core's libibverbs.so.1, in whose place this "
          "program has uroce's: `uroce serve --port " +
          address + "` has the NIC for programs" +
          (interface.empty() ? "" : "; or use it beside the kernel by interface = \"" + interface + "\"")};
}

Status may_open(const std::string& address, const fs::path& file) {
  if (access(file.c_str(), R_OK | W_OK) == 0) return {};
  const int code = errno;
  if (code == EACCES || code == EPERM)
    return Error{EACCES, address + ": no permission to open " + file.string() +
                             ": run as root, or let this user have it (chown)"};
  return Error{code, address + ": cannot open " + file.string() + ": " + std::strerror(code)};
}

Status may_open_vfio(const std::string& address, const fs::path& device, const fs::path& files) {
  const std::string group = link_target(device / "iommu_group");
  const fs::path folder = files / "vfio";
  // Without an IOMMU, where its administrator allows that, the kernel calls the group otherwise.
  const bool unsafe = fs::exists(folder / ("noiommu-" + group));
  if (Status control = may_open(address, folder / "vfio"); !control) return control;
  return may_open(address, folder / ((unsafe ? "noiommu-" : "") + group));
}

}  // namespace

std::optional<std::string> pci_address(std::string_view devargs) {
  static const std::regex kAddress("([0-9a-fA-F]{4}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\\.[0-7]");
  std::string address(devargs.substr(0, devargs.find(',')));
  std::smatch parts;
  if (!std::regex_match(address, parts, kAddress)) return std::nullopt;
  if (!parts[1].matched) address.insert(0, "0000:");
  std::ranges::transform(address, address.begin(), [](unsigned char c) { return std::tolower(c); });
  return address;
}

Status may_have_pci_device(std::string_view devargs, const PciPaths& here) {
  const std::optional<std::string> address = pci_address(devargs);
  if (!address) return {};
  const fs::path device = here.devices / *address;
  if (!fs::exists(device))
    return Error{
        ENODEV,
        *address + ": there is no such PCI device; `dpdk-devbind.py --status` lists those that exist"};
  const std::string driver = link_target(device / "driver");
  if (driver.empty()) return without_driver(*address, device);
  if (is_vfio(driver)) return may_open_vfio(*address, device, here.files);
  if (has(kShared, driver)) return here.our_verbs ? with_other_verbs(*address, device) : Status();
  if (has(kUio, driver)) return {};
  return of_the_kernel(*address, device, driver);
}

bool may_be_network_controller(std::string_view devargs, const PciPaths& here) {
  const std::optional<std::string> address = pci_address(devargs);
  if (!address) return true;
  std::ifstream file(here.devices / *address / "class");
  std::string number;
  return !(file >> number) || number.starts_with("0x02");
}

}  // namespace uroce::drivers
