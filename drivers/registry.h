#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/values/identifiers.h"
#include "base/values/result.h"
#include "copy/engine.h"
#include "drivers/port/kernel/carrier.h"
#include "port/port.h"
#include "port/specification.h"

namespace uroce::drivers {

/// True when EAL must run before the port is opened (rte_eal_init is the engine's business). The engine gives
/// every thread that turns a queue of such a port an lcore id.
bool needs_eal(std::string_view devargs);

/// The name of the wire inside this process that the port is an end of, empty for a port that leads outside.
/// Ports on one wire are opened together, so that each finds its other end.
std::string wire_of(std::string_view devargs);

/// False when the port has no MAC that stays the same from one opening to the next: give it one.
bool has_mac(std::string_view devargs);

/// The port's own MAC, as far as it is known before the port is opened: that of the kernel's interface that
/// it goes through.
std::optional<MacAddress> known_mac(std::string_view devargs);

/// Opens a port. Control path, any thread; ports of DPDK are opened and destroyed by one thread at a time.
/// Errors are one line that names the thing: EINVAL (devargs, MTU out of range), ENODEV (no such driver or
/// interface), EBUSY (in use already), EMSGSIZE (MTU that the port cannot carry), ENOMEM, ENOTSUP (too many
/// queues).
Result<std::unique_ptr<port::Port>> open_port(const port::Specification& specification);

/// Opens a copy engine: DPDK devargs of a DMA device, whose EAL must run. Errors as above, and ENOTSUP when
/// it cannot do what copy::Engine asks for.
Result<std::unique_ptr<copy::Engine>> open_copy_engine(std::string_view devargs);

/// Wraps every port that open_port opens from now on: faults, taps and traces are decorators. Null removes
/// it. Not to be called while a port is being opened.
using PortDecorator = std::function<std::unique_ptr<port::Port>(std::unique_ptr<port::Port>)>;
void decorate_ports(PortDecorator decorator);

}  // namespace uroce::drivers
