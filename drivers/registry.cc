#include "drivers/registry.h"

#include <array>
#include <cerrno>
#include <utility>

#include "drivers/port/loopback/loopback.h"

namespace uroce::drivers {
namespace {

struct PortDriver {
  bool (*claims)(std::string_view devargs);
  Result<std::unique_ptr<port::Port>> (*open)(const PortSpecification& specification);
  bool needs_eal;
  std::string (*wire)(std::string_view devargs) = nullptr;  // only where both ends live in this process
};

/// Every port driver; the first that claims the devargs opens the port.
constexpr std::array kPortDrivers = {
    PortDriver{is_loopback, open_loopback, false, loopback_wire},
};

const PortDriver* driver_of(std::string_view devargs) {
  for (const PortDriver& driver : kPortDrivers) {
    if (driver.claims(devargs)) return &driver;
  }
  return nullptr;
}

PortDecorator& port_decorator() {
  static PortDecorator decorator;
  return decorator;
}

}  // namespace

bool needs_eal(std::string_view devargs) {
  const PortDriver* driver = driver_of(devargs);
  return driver != nullptr && driver->needs_eal;
}

std::string wire_of(std::string_view devargs) {
  const PortDriver* driver = driver_of(devargs);
  return driver != nullptr && driver->wire != nullptr ? driver->wire(devargs) : std::string();
}

Result<std::unique_ptr<port::Port>> open_port(const PortSpecification& specification) {
  const PortDriver* driver = driver_of(specification.devargs);
  if (driver == nullptr) return Error{ENODEV, "'" + specification.devargs + "': no such port driver"};
  Result<std::unique_ptr<port::Port>> port = driver->open(specification);
  if (port && port_decorator()) return port_decorator()(std::move(*port));
  return port;
}

void decorate_ports(PortDecorator decorator) { port_decorator() = std::move(decorator); }

}  // namespace uroce::drivers
