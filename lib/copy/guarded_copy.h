#pragma once

#include <signal.h>

#include <cstddef>
#include <cstdint>

#include "copy/kind.h"

namespace uroce::copy {

// Registered memory belongs to the program: nothing keeps it from unmapping, truncating or protecting it
// while a peer uses it. So it is only touched by these two, which survive that. They cost about thirty
// instructions, no system call and no atomic operation.
//
// The process's signal handler has to ask take_fault(); without one a fault kills as it always did.

/// False: some page of `to` was not there or not writable; bytes before it may have been copied, in no order.
/// What `copy` streamed still needs its sfence then. length > 0.
bool guarded_copy_to(CopyFunction copy, std::byte* to, const std::byte* from, size_t length);

/// The same where `from` is the registered memory.
bool guarded_copy_from(CopyFunction copy, std::byte* to, const std::byte* from, size_t length);
/// The same with a copy that sums up what it moves; false: `sum` may be anything.
bool guarded_copy_from(SummingCopy copy, std::byte* to, const std::byte* from, size_t length, void* sum);

/// For handlers of SIGSEGV and SIGBUS: true when the fault happened at the guarded end of a copy that the
/// calling thread is in; the copy then ends as soon as the handler returns. Any other fault, also one of the
/// copy's other end, is none of our business. Async-signal-safe.
bool take_fault(int signal, const siginfo_t& info, void* context);

}  // namespace uroce::copy
