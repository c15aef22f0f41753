#pragma once

#include "base/values/keyed_hash.h"
#include "base/values/result.h"

namespace uroce::engine {

/// A key from the kernel's random source. Errors: getrandom(2)'s, where there is none.
Result<HashKey> random_key();

}  // namespace uroce::engine
