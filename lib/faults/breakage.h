#pragma once

#include <optional>
#include <string_view>

#include "faults/rule.h"

namespace uroce::faults {

/// What an order that begins with host::kBreakOrder is to break: the queue pair of a rule, or its device for
/// a process or for all programs. Nothing: the text orders no such thing, or names nothing or more than a
/// device and a process, or a queue pair.
std::optional<Rule> parse_breakage(std::string_view text);

}  // namespace uroce::faults
