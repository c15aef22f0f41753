#pragma once

#include <span>
#include <string>

#include "nvmf/rdma/connections.h"

namespace uroce::nvmf_target {

/// A table of what queues have done so far, for people; each line ends with a line feed.
std::string describe(std::span<const nvmf::RdmaQueueReport> queues);
/// How often what happened to connections, as far as it happened; each line ends with a line feed.
std::string describe(const nvmf::RdmaEventTotals& events);

}  // namespace uroce::nvmf_target
