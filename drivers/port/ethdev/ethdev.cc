#include "drivers/port/ethdev/ethdev.h"

#include <rte_lcore.h>

#include <cerrno>

#include "drivers/port/ethdev/ethdev_port.h"
#include "drivers/port/kernel/carrier.h"
#include "drivers/port/kernel/pmd_traits.h"
#include "drivers/process/signals_blocked.h"

namespace uroce::drivers {

std::string ethdev_wire(std::string_view devargs) {
  const auto number = ring_number(devargs.substr(0, devargs.find(',')));
  return number ? "net_ring wire " + std::to_string(*number / 2) : std::string();
}

bool ethdev_has_mac(std::string_view devargs) {
  return pmd_traits(devargs.substr(0, devargs.find(','))).mac != MacFilter::kNone;
}

std::optional<MacAddress> ethdev_known_mac(std::string_view devargs) {
  const std::string interface = interface_of(devargs);
  return interface.empty() ? std::nullopt : interface_mac_of(interface);
}

Result<std::unique_ptr<port::Port>> open_ethdev(const port::Specification& specification) {
  if (specification.devargs.empty() || specification.devargs.front() == ',') {
    return Error{EINVAL, "'" + specification.devargs + "': a port has no name"};
  }
  const SignalsBlocked held;
  auto port = std::make_unique<EthdevPort>(specification);
  using Step = Status (EthdevPort::*)();
  for (const Step step :
       {&EthdevPort::prepare, &EthdevPort::attach, &EthdevPort::configure, &EthdevPort::start}) {
    const Status status = (*port.*step)();
    if (!status) return status.error();
  }
  return std::unique_ptr<port::Port>(std::move(port));
}

}  // namespace uroce::drivers
