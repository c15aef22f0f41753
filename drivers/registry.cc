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

struct PortDriver {
  bool (*claims)(std::string_view devargs);
  Result<std::unique_ptr<port::Port>> (*open)(const port::Specification& specification);
  bool needs_eal;
  std::string (*wire)(std::string_view devargs);  // empty unless both ends live in this process
  bool (*has_mac)(std::string_view devargs);
  std::optional<MacAddress> (*known_mac)(std::string_view devargs);
};

/// Every port driver; the first that claims the devargs opens the port. DPDK takes all that is left.
constexpr std::array kPortDrivers = {
    PortDriver{is_host, open_host, false, [](std::string_view) { return std::string(); },
               [](std::string_view) { return true; },
               [](std::string_view) -> std::optional<MacAddress> { return std::nullopt; }},
    PortDriver{is_loopback, open_loopback, false, loopback_wire, [](std::string_view) { return true; },
               [](std::string_view) -> std::optional<MacAddress> { return std::nullopt; }},
    PortDriver{is_packet, open_packet, false, [](std::string_view) { return std::string(); },
               [](std::string_view) { return true; }, packet_known_mac},
    PortDriver{[](std::string_view) { return true; }, open_ethdev, true, ethdev_wire, ethdev_has_mac,
               ethdev_known_mac},
};

const PortDriver& driver_of(std::string_view devargs) {
  return *std::ranges::find_if(kPortDrivers,
                               [&](const PortDriver& driver) { return driver.claims(devargs); });
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
    auto xdp = open_xdp(specification.kernels_interface, specification);
    if (xdp || specification.kernel_path == port::KernelPath::kXdp) return xdp;
    remark += "AF_PACKET beside the kernel, as AF_XDP is not to be had (" + xdp.error().message + ")";
  } else {
    remark += "AF_PACKET beside the kernel, as configured";
  }
  // Without them a frame costs the same by either.
  return gso ? open_packet(packet) : open_ethdev(packet);
}

Result<std::unique_ptr<port::Port>> open_beside_kernel(const port::Specification& specification) {
  if (!specification.by_rules) return open_on_interface(specification);
  auto nic = open_ethdev(specification);
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

std::string wire_of(std::string_view devargs) { return driver_of(devargs).wire(devargs); }

bool has_mac(std::string_view devargs) { return driver_of(devargs).has_mac(devargs); }

std::optional<MacAddress> known_mac(std::string_view devargs) {
  return driver_of(devargs).known_mac(devargs);
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
