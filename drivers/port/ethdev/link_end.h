#pragma once

#include "base/values/result.h"
#include "drivers/port/kernel/claims.h"
#include "drivers/port/kernel/devargs.h"

namespace uroce::drivers {

/// What a driver joins, or waits for, without a word when another process has it already: a tap of that name,
/// an end of a memif (whose server talks to its first client only). Any device; nothing is claimed by most.
/// EBUSY.
Result<Claims> claim_end_of_link(const Devargs& devargs);

}  // namespace uroce::drivers
