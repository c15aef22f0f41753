#pragma once

#include <infiniband/verbs.h>

#include "base/values/identifiers.h"

namespace uroce::verbs {

struct VerbsQp;

/// ibv_modify_qp; `given` is of enum ibv_qp_attr_mask, as in C. With the peer's MAC, where that is known from
/// a message of the peer's, it never waits for an answer of the link; all zero: unknown. 0 or errno.
int modify_qp(VerbsQp& qp, const ibv_qp_attr& wanted, int given, MacAddress peer);

}  // namespace uroce::verbs
