#pragma once

#include <string>

namespace uroce::testing {

/// Starts EAL for a test program, once, on a thread of its own (it pins and renames the thread that starts
/// it), without hugepages, shared files or PCI. Returns what went wrong, empty when it runs.
std::string start_eal();

}  // namespace uroce::testing
