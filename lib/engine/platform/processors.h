#pragma once

#include <cstdint>
#include <vector>

namespace uroce::engine {

/// CPUs that this process may use, ascending: what it was given before anything (EAL, a framework's reactor)
/// narrowed the affinity of a thread. Never empty.
const std::vector<uint32_t>& allowed_processors();

/// The allowed CPUs that share the memory node of the CPU that the caller runs on; never empty.
std::vector<uint32_t> allowed_processors_nearby();

/// How many CPUs the calling thread may use now.
uint32_t processors_of_this_thread();

}  // namespace uroce::engine
