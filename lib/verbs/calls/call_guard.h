#pragma once

#include <cerrno>
#include <cstring>
#include <new>

#include "base/process/cancellation.h"
#include "base/values/result.h"

namespace uroce::verbs {

// What all verbs of the control path have in common. No exception crosses the C face: running out of memory
// becomes ENOMEM. A pointer that must not be NULL and is, and a value that is none of its enumeration, are
// EINVAL. Whatever a verb returns when it fails, errno has the reason, too. A thread that is
// cancelled meanwhile finishes the call: half a call would leave locks, descriptors and devices behind.

/// For verbs that return a pointer, or NULL and errno.
template <typename Body>
auto pointer_or_errno(Body body) -> decltype(body()) {
  const CancellationDisabled held;
  try {
    return body();
  } catch (const std::bad_alloc&) {
    errno = ENOMEM;
    return nullptr;
  }
}

/// What a verb that returns an errno returns: errno has it, too, as after the system call that other
/// providers make here. Programs print it by perror().
inline int with_errno(int error) {
  if (error != 0) errno = error;
  return error;
}

/// For verbs that return an errno.
template <typename Body>
int zero_or_errno(Body body) {
  const CancellationDisabled held;
  try {
    return with_errno(body());
  } catch (const std::bad_alloc&) {
    return with_errno(ENOMEM);
  }
}

/// None of the caller's pointers is NULL.
template <typename... Object>
bool all_given(const Object*... objects) {
  return (... && (objects != nullptr));
}

/// What the caller put where a value of an enumeration belongs, which may be any bits: they are compared
/// before they are taken for a value.
template <typename Enumeration>
unsigned bits_of(const Enumeration& from) {
  unsigned bits = 0;
  static_assert(sizeof(from) == sizeof(bits));
  std::memcpy(&bits, &from, sizeof(bits));
  return bits;
}

/// 0 or errno.
inline int errno_of(const Status& status) { return status ? 0 : status.error().code; }

/// "NULL and errno" in one expression.
inline decltype(nullptr) fail(int code) {
  errno = code;
  return nullptr;
}

/// "-1 and errno".
inline int minus_one(int error) {
  errno = error;
  return -1;
}

}  // namespace uroce::verbs
