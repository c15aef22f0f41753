#pragma once

#include <cstdint>
#include <span>

#include "nvmf/queue/command_row.h"

namespace uroce::nvmf {

std::span<const CommandRow> admin_commands();
std::span<const CommandRow> io_commands();
std::span<const CommandRow> fabrics_commands();
/// nullptr: there is no such command.
const CommandRow* find_command(std::span<const CommandRow> table, uint8_t code);

}  // namespace uroce::nvmf
