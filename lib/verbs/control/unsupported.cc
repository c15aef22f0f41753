#include <cerrno>

#include "verbs/calls/export.h"

// What stands behind a verb that is not implemented; which of these, lib/verbs/faces/symbols.txt says. They
// are reached with any arguments and look at none.

extern "C" UROCE_EXPORT int uroce_verbs_unsupported_errno() {
  errno = EOPNOTSUPP;
  return EOPNOTSUPP;
}

extern "C" UROCE_EXPORT void* uroce_verbs_unsupported_null() {
  errno = EOPNOTSUPP;
  return nullptr;
}

extern "C" UROCE_EXPORT int uroce_verbs_unsupported_minus_one() {
  errno = EOPNOTSUPP;
  return -1;
}

extern "C" UROCE_EXPORT long uroce_verbs_nothing() { return 0; }
