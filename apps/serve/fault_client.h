#pragma once

#include <cstdint>
#include <string>

namespace uroce::serve {

// Faults of the service at `socket`, the default one if that is empty. The exit status, 1 after one line on
// standard error.

/// Orders what the rule says, and prints the fault's number.
int add_fault(const std::string& socket, const std::string& rule);
/// Breaks at once what the order says, and prints for how many programs.
int break_object(const std::string& socket, const std::string& order);
/// Prints a table, or what was answered as JSON.
int list_faults(const std::string& socket, bool json);
/// Ends the fault, or all if `id` is 0.
int clear_fault(const std::string& socket, uint32_t id);

}  // namespace uroce::serve
