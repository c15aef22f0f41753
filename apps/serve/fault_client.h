#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "faults/rule.h"

namespace uroce::serve {

// Faults of the process `client`, if it has a port of its own, and else of the service at `socket`, the
// default one if that is empty. The exit status, 1 after one line on standard error.

/// Orders what the rule says, and prints the fault's number.
int add_fault(const std::string& socket, const faults::Rule& rule);
/// Breaks at once what the order says, and prints for how many programs.
int break_object(const std::string& socket, std::optional<uint32_t> client, const std::string& order);
/// Prints a table, or JSON.
int list_faults(const std::string& socket, std::optional<uint32_t> client, bool json);
/// Ends the fault, or all if `id` is 0.
int clear_fault(const std::string& socket, std::optional<uint32_t> client, uint32_t id);

}  // namespace uroce::serve
