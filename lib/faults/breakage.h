#pragma once

#include <optional>
#include <string_view>

#include "faults/scope.h"

namespace uroce::faults {

/// What an order that begins with host::kBreakOrder is to break: a queue pair, or a device for a process or
/// for all programs. Nothing: the text orders no such thing, or names nothing or more than a
/// device and a process, or a queue pair.
std::optional<Scope> parse_breakage(std::string_view text);

}  // namespace uroce::faults
