#pragma once

#include <infiniband/verbs.h>

#include <cerrno>

#include "verbs/call_guard.h"
#include "verbs/device_list.h"
#include "verbs/objects.h"

namespace uroce::verbs {

/// 0, EOPNOTSUPP for a context that is not ours (a program may use our extensions beside another libibverbs),
/// or EIO in a forked child.
inline int check_context(ibv_context* face) {
  if (face == nullptr || !ours(*face->device)) return EOPNOTSUPP;
  return object(face).alive() ? 0 : EIO;
}

/// For calls that return an errno, about an `object` with a context, which may be missing (EINVAL).
template <typename Object, typename Body>
int checked_errno(Object* object, Body body) {
  if (object == nullptr) return EINVAL;
  if (const int error = check_context(object->context); error != 0) return error;
  return zero_or_errno(body);
}

}  // namespace uroce::verbs
