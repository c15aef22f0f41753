#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "drivers/port/ethdev/devargs.h"
#include "drivers/port/ethdev/exclusive_name.h"
#include "port/specification.h"

// Two processes with one configuration would both answer for it, and each would take frames that are the
// other's.
namespace uroce::drivers {

/// What no other port in this network namespace may be while the port is open.
using Claims = std::vector<ExclusiveName>;

/// The port's addresses on a kernel interface, and its MAC where it is not the interface's. Without
/// addresses, the interface's MAC. Other addresses on the same interface may be another process's. EBUSY.
Result<Claims> claim_addresses(const port::Specification& specification, unsigned interface_index);

/// What a driver joins, or waits for, without a word when another process has it already: a tap of that name,
/// an end of a memif (whose server talks to its first client only). Any device; nothing is claimed by most.
/// EBUSY.
Result<Claims> claim_end_of_link(const Devargs& devargs);

}  // namespace uroce::drivers
