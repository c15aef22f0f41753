#pragma once

#include <optional>

#include "nvmf/queue/request.h"

namespace uroce::nvmf {

struct QueueState;

// The commands of NVMe-oF 1.1, section 3, for the rows of command_table.cc.

CommandStatus check_connect(QueueState& queue, Request& request);
std::optional<CommandStatus> connect(QueueState& queue, Request& request);
std::optional<CommandStatus> disconnect(QueueState& queue, Request& request);
std::optional<CommandStatus> get_property(QueueState& queue, Request& request);
std::optional<CommandStatus> set_property(QueueState& queue, Request& request);

}  // namespace uroce::nvmf
