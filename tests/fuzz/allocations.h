#pragma once

#include <cstdint>

namespace uroce::fuzz {

/// How often the process has allocated by an operator new. A program with this has no other operator new.
uint64_t allocations();

}  // namespace uroce::fuzz
