#pragma once

#include <signal.h>

#include <cstddef>
#include <cstdint>

#include "copy/address_sanitizer.h"
#include "copy/kernels.h"
#include "copy/kind.h"

extern "C" {
// short_copies.S
[[gnu::visibility("hidden")]] bool uroce_read_short(std::byte* to, const std::byte* from, size_t length);
[[gnu::visibility("hidden")]] bool uroce_store_ascending(std::byte* to, const std::byte* from, size_t length);
}

namespace uroce::copy {

// Registered memory belongs to the program: nothing keeps it from unmapping, truncating or protecting it
// while a peer uses it. So it is only touched by these, which survive that, without a system call or an
// atomic operation. Around a copy function they set a guard, about thirty instructions. Where the copy is of
// a few bytes, or the end of a message, it is one whose place in the program tells enough: it costs no more
// than an unguarded one.
//
// The process's signal handler has to ask take_fault(); without one a fault kills as it always did.

/// False: some page of `to` was not there or not writable; bytes before it may have been copied, in no order.
/// What `copy` streamed still needs its sfence then. length > 0.
bool guarded_copy_to(CopyFunction copy, std::byte* to, const std::byte* from, size_t length);

/// A guarded copy where `from` is the registered memory.
bool guarded_copy_from(CopyFunction copy, std::byte* to, const std::byte* from, size_t length);
/// A guarded copy from registered memory that sums up what it moves; false: `sum` may be anything.
bool guarded_copy_from(SummingCopy copy, std::byte* to, const std::byte* from, size_t length, void* sum);

/// `from` is the registered memory, and the bytes are not to be watched. False: some of it was not there.
inline bool guarded_read(std::byte* to, const std::byte* from, size_t length) {
  constexpr size_t kShortMax = 256;
  if (length > kShortMax) [[unlikely]]
    return guarded_copy_from(copy_ordinary, to, from, length);
  tell_of_access(from, length);
  tell_of_access(to, length);
  return uroce_read_short(to, from, length);
}

/// `to` is the registered memory, and a CPU may be watching it, as the end of a message: ordinary stores
/// in ascending order of addresses, none of which crosses a cache line. False: some of it was not there or
/// not writable; bytes before that are stored.
inline bool guarded_store_ascending(std::byte* to, const std::byte* from, size_t length) {
  tell_of_access(from, length);
  tell_of_access(to, length);
  return uroce_store_ascending(to, from, length);
}

/// For handlers of SIGSEGV and SIGBUS: true when the fault happened at the guarded end of a copy that the
/// calling thread is in; the copy then ends as soon as the handler returns. Any other fault, also one of the
/// copy's other end, is none of our business. Async-signal-safe.
bool take_fault(int signal, const siginfo_t& info, void* context);

}  // namespace uroce::copy
