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

/// Too few CPUs to keep one spinning: a thread that has nothing to do yields its own.
inline bool few_processors() { return allowed_processors().size() <= 2; }

}  // namespace uroce::engine
