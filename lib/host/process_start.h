#pragma once

#include <cstdint>
#include <optional>

namespace uroce::host {

/// When a process was started, in clock ticks since the machine was: with its number it tells it from all
/// others. Null: there is no such process.
std::optional<uint64_t> start_of_process(int pid);

}  // namespace uroce::host
