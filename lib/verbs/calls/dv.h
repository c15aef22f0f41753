#pragma once

#include <infiniband/urocedv.h>

#include <algorithm>
#include <cerrno>
#include <span>

#include "verbs/calls/call_guard.h"
#include "verbs/calls/device_list.h"
#include "verbs/calls/objects.h"

namespace uroce::verbs {

/// 0, EINVAL for none, EOPNOTSUPP for a context that is not ours (a program may use our extensions beside
/// another libibverbs), or EIO in a forked child.
inline int check_context(ibv_context* face) {
  if (face == nullptr) return EINVAL;
  if (!ours(*face->device)) return EOPNOTSUPP;
  return object(face).alive() ? 0 : EIO;
}

/// For calls that describe a work request and return nothing. False: errno says why.
inline bool is_ours(ibv_qp_ex* qp) {
  return with_errno(qp != nullptr ? check_context(qp->qp_base.context) : EINVAL) == 0;
}

/// Whether an entry of a scatter/gather list says more than this version knows.
inline bool unknown_bits(std::span<const urocedv_sg> list) {
  return std::ranges::any_of(list, [](const urocedv_sg& entry) { return entry.comp_mask != 0; });
}

/// For calls that return an errno, about an `object` with a context, which may be missing (EINVAL).
template <typename Object, typename Body>
int checked_errno(Object* object, Body body) {
  if (object == nullptr) return with_errno(EINVAL);
  if (const int error = check_context(object->context); error != 0) return with_errno(error);
  return zero_or_errno(body);
}

}  // namespace uroce::verbs
