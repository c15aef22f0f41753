#pragma once

#include <optional>

#include "nvmf/queue/request.h"

namespace uroce::nvmf {

struct QueueState;

// The NVM command set (NVMe 1.4, section 6), for the rows of command_table.cc.

CommandStatus check_read(QueueState& queue, Request& request);
CommandStatus check_write(QueueState& queue, Request& request);
CommandStatus check_compare(QueueState& queue, Request& request);
CommandStatus check_verify(QueueState& queue, Request& request);
CommandStatus check_write_zeroes(QueueState& queue, Request& request);
CommandStatus check_flush(QueueState& queue, Request& request);
CommandStatus check_deallocate(QueueState& queue, Request& request);

std::optional<CommandStatus> read(QueueState& queue, Request& request);
std::optional<CommandStatus> write(QueueState& queue, Request& request);
std::optional<CommandStatus> write_zeroes(QueueState& queue, Request& request);
std::optional<CommandStatus> flush(QueueState& queue, Request& request);
/// Dataset Management: one range after the other.
std::optional<CommandStatus> deallocate(QueueState& queue, Request& request);
std::optional<CommandStatus> deallocate_next(QueueState& queue, Request& request);
/// Compare and Verify: piece by piece, as far as the memory for it goes.
std::optional<CommandStatus> examine(QueueState& queue, Request& request);
std::optional<CommandStatus> compare_piece(QueueState& queue, Request& request);
std::optional<CommandStatus> verify_piece(QueueState& queue, Request& request);

}  // namespace uroce::nvmf
