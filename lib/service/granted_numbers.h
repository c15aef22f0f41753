#pragma once

#include <sys/types.h>

#include "base/tables/number_block.h"
#include "base/values/result.h"

namespace uroce::service {

/// The queue pair numbers that a service of this user had given to a program of `user`, by the memory that it
/// had made for that program. EPERM, with what is wrong: it is no such memory, or the numbers are no more the
/// program's.
Result<NumberBlock> granted_numbers(int descriptor, uid_t user);

}  // namespace uroce::service
