#pragma once

#include <cstddef>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define UROCE_ADDRESS_SANITIZER 1
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define UROCE_ADDRESS_SANITIZER 1
#endif

#ifdef UROCE_ADDRESS_SANITIZER
#include <sanitizer/asan_interface.h>

extern "C" void __asan_handle_no_return();
#endif

namespace uroce::copy {

// What AddressSanitizer, in a build with it, has to be told of. In others these are nothing.

#ifdef UROCE_ADDRESS_SANITIZER

/// Frames of this thread were left without a return.
inline void tell_of_left_frames() { __asan_handle_no_return(); }

/// Assembler is about to touch these bytes, which no compiler could see: bytes that must not be touched are
/// touched here, and so reported.
inline void tell_of_access(const std::byte* bytes, size_t length) {
  const void* const wrong = __asan_region_is_poisoned(const_cast<std::byte*>(bytes), length);
  if (wrong != nullptr) (void)*static_cast<const volatile std::byte*>(wrong);
}

#else

inline void tell_of_left_frames() {}
inline void tell_of_access(const std::byte*, size_t) {}

#endif

}  // namespace uroce::copy
