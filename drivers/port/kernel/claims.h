#pragma once

#include <string>
#include <vector>

#include "base/values/result.h"
#include "drivers/port/kernel/exclusive_name.h"
#include "port/specification.h"

// Two processes with one configuration would both answer for it, and each would take frames that are the
// other's.
namespace uroce::drivers {

/// What no other port in this network namespace may be while the port is open.
using Claims = std::vector<ExclusiveName>;

/// `where` is unlike any other in this namespace, `shown` is what people call it.
struct Claimed {
  std::string what;
  std::string where;
  std::string shown;
};

/// Claims all of `things`, or none. `port` begins the error's message. EBUSY.
Result<Claims> claim(const std::string& port, const std::vector<Claimed>& things);

/// The port's addresses on a kernel interface, and its MAC where it is not the interface's. Without
/// addresses, the interface's MAC. Other addresses on the same interface may be another process's. EBUSY.
Result<Claims> claim_addresses(const port::Specification& specification, unsigned interface_index);

}  // namespace uroce::drivers
