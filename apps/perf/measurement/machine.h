#pragma once

#include <string>
#include <utility>
#include <vector>

#include "client/verbs_device.h"

namespace uroce::perf {

/// A name and what is to be said of it, in the order in which they are shown.
using Description = std::vector<std::pair<std::string, std::string>>;

/// The machine that this process runs on, and when.
Description describe_machine();

/// A device: its firmware, vendor and link.
Description describe(const client::VerbsDevice& device);

}  // namespace uroce::perf
