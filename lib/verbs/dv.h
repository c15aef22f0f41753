#pragma once

#include <infiniband/verbs.h>

#include <cerrno>

#include "verbs/device_list.h"
#include "verbs/objects.h"

namespace uroce::verbs {

/// 0, EOPNOTSUPP for a context that is not ours (a program may use our extensions beside another libibverbs),
/// or EIO in a forked child.
inline int check_context(ibv_context* face) {
  if (face == nullptr || !ours(*face->device)) return EOPNOTSUPP;
  return object(face).alive() ? 0 : EIO;
}

}  // namespace uroce::verbs
