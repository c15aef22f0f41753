#pragma once

#include <cstddef>

#include "base/values/time.h"

namespace uroce::engine {

/// How long the calling CPU takes to get the cache line at `line` for writing; its bytes stay. 0 where cycles
/// are not counted (clock.h): then the clock costs as much as the line.
Duration time_line_claim(std::byte* line);

}  // namespace uroce::engine
