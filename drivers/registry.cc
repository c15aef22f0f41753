#include "drivers/registry.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "drivers/copy/dmadev/dmadev.h"
#include "drivers/port/ethdev/ethdev.h"
#include "drivers/port/host/host.h"
#include "drivers/port/loopback/loopback.h"
#include "drivers/port/packet/packet.h"
#include "drivers/port/xdp/xdp.h"

namespace uroce::drivers {
namespace {

/// A port driver. Without `claims` no devargs name it: its ports stand beside the kernel.
struct PortDriver {
  std::string_view name;
  bool (*claims)(std::string_view devargs) = nullptr;
  Result<std::unique_ptr<port::Port>> (*open)(const port::Specification& specification);
  bool needs_eal = false;
  std::string (*wire)(std::string_view devargs) = nullptr;  // if both ends may live in this process
  bool (*has_mac)(std::string_view devargs) = nullptr;      // null: it always has
  std::optional<MacAddress> (*known_mac)(std::string_view devargs) = nullptr;
};

bool is_any(std::string_view) { return true; }

/// Every port driver; the first that claims the devargs opens the port. DPDK takes all that is left.
constexpr std::array kPortDrivers = {
    PortDriver{.name = "host", .claims = is_host, .open = open_host},
    PortDriver{.name = "loopback", .claims = is_loopback, .open = open_loopback, .wire = loopback_wire},
    PortDriver{.name = "packet", .claims = is_packet, .open = open_packet, .known_mac = packet_known_mac},
    PortDriver{.name = "xdp", .open = open_xdp},
    PortDriver{.name = "ethdev",
               .claims = is_any,
               .open = open_ethdev,
               .needs_eal = true,
               .wire = ethdev_wire,
               .has_mac = ethdev_has_mac,
               .known_mac = ethdev_known_mac},
};

const PortDriver& driver_of(std::string_view devargs) {
  return *std::ranges::find_if(kPortDrivers, [&](const PortDriver& driver) {
    return driver.claims != nullptr && driver.claims(devargs);
  });
}

consteval auto opening(std::string_view name) {
  return std::ranges::find(kPortDrivers, name, &PortDriver::name)->open;
}

/// By AF_XDP or AF_PACKET. Where packet sockets send GSO frames they are the better of the two.
Result<std::unique_ptr<port::Port>> open_on_interface(const port::Specification& specification) {
  port::Specification packet = specification;
  packet.devargs = port::packet_port_on(specification.kernels_interface);
  std::string& remark = packet.remark;
  if (!remark.empty()) remark += "; ";
  const bool gso = why_no_gso(specification.kernels_interface).empty();
  if (specification.kernel_path == port::KernelPath::kAuto && gso) {
    remark += "AF_PACKET beside the kernel, as GSO frames on veth carry more than AF_XDP";
  } else if (specification.kernel_path != port::KernelPath::kPacket) {
    auto xdp = opening("xdp")(specification);
    if (xdp || specification.kernel_path == port::KernelPath::kXdp) return xdp;
    remark += "AF_PACKET beside the kernel, as AF_XDP is not to be had (" + xdp.error().message + ")";
  } else {
    remark += "AF_PACKET beside the kernel, as configured";
  }
  // Without them a frame costs the same by either.
  return gso ? opening("packet")(packet) : opening("ethdev")(packet);
}

Result<std::unique_ptr<port::Port>> open_beside_kernel(const port::Specification& specification) {
  if (!specification.by_rules) return open_on_interface(specification);
  auto nic = opening("ethdev")(specification);
  if (nic || nic.error().code != ENOTSUP) return nic;
  port::Specification without = specification;
  without.by_rules = false;
  without.remark = "the rules of its NIC are not to be had (" + nic.error().message + ")";
  return open_on_interface(without);
}

PortDecorator& port_decorator() {
  static PortDecorator decorator;
  return decorator;
}

}  // namespace

bool needs_eal(std::string_view devargs) { return driver_of(devargs).needs_eal; }

std::string wire_of(std::string_view devargs) {
  const auto wire = driver_of(devargs).wire;
  return wire == nullptr ? std::string() : wire(devargs);
}

bool has_mac(std::string_view devargs) {
  const auto has_mac = driver_of(devargs).has_mac;
  return has_mac == nullptr || has_mac(devargs);
}

std::optional<MacAddress> known_mac(std::string_view devargs) {
  const auto known_mac = driver_of(devargs).known_mac;
  return known_mac == nullptr ? std::nullopt : known_mac(devargs);
}

Result<std::unique_ptr<port::Port>> open_port(const port::Specification& specification) {
  Result<std::unique_ptr<port::Port>> port = specification.beside_kernel()
                                                 ? open_beside_kernel(specification)
                                                 : driver_of(specification.devargs).open(specification);
  if (port && port_decorator()) return port_decorator()(std::move(*port));
  return port;
}

/// There is one driver of them. What the CPU copies is lib/copy's affair.
Result<std::unique_ptr<copy::Engine>> open_copy_engine(std::string_view devargs) {
  return open_dmadev(devargs);
}

void decorate_ports(PortDecorator decorator) { port_decorator() = std::move(decorator); }

}  // namespace uroce::drivers
