#pragma once

#include <cerrno>
#include <new>

#include "base/result.h"

namespace uroce::verbs {

// No exception crosses the C face: running out of memory on the control path becomes ENOMEM.

/// For verbs that return a pointer, or NULL and errno.
template <typename Body>
auto pointer_or_errno(Body body) -> decltype(body()) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    errno = ENOMEM;
    return nullptr;
  }
}

/// For verbs that return an errno.
template <typename Body>
int zero_or_errno(Body body) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return ENOMEM;
  }
}

/// 0 or errno.
inline int errno_of(const Status& status) { return status ? 0 : status.error().code; }

/// "NULL and errno" in one expression.
inline decltype(nullptr) fail(int code) {
  errno = code;
  return nullptr;
}

}  // namespace uroce::verbs
