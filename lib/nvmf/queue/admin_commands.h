#pragma once

#include <optional>

#include "nvmf/queue/request.h"

namespace uroce::nvmf {

struct QueueState;

// The admin command set (NVMe 1.4, section 5), for the rows of command_table.cc.

CommandStatus check_identify(QueueState& queue, Request& request);
std::optional<CommandStatus> identify(QueueState& queue, Request& request);
CommandStatus check_get_log_page(QueueState& queue, Request& request);
std::optional<CommandStatus> get_log_page(QueueState& queue, Request& request);
CommandStatus check_get_features(QueueState& queue, Request& request);
std::optional<CommandStatus> get_features(QueueState& queue, Request& request);
std::optional<CommandStatus> set_features(QueueState& queue, Request& request);
std::optional<CommandStatus> async_event_request(QueueState& queue, Request& request);
std::optional<CommandStatus> keep_alive(QueueState& queue, Request& request);
std::optional<CommandStatus> abort_command(QueueState& queue, Request& request);

}  // namespace uroce::nvmf
