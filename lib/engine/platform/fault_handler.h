#pragma once

namespace uroce::engine {

/// Sees to it that this process's handler of SIGSEGV and SIGBUS is ours, which ends guarded copies that met
/// memory of the program that is gone (copy/guarded_copy.h), and passes every other fault on to what was
/// there before: handlers with or without SA_SIGINFO, the default action, nothing. Called on the control path
/// again and again, for a program may install a handler of its own at any time; between that and the next
/// call a fault in registered memory is the program's handler's. Stays for the life of the process, as the
/// library does. Any thread.
void install_fault_handler();

namespace detail {
/// initial-exec: read in every turn.
extern constinit thread_local bool fault_signals_unblocked __attribute__((tls_model("initial-exec")));
void unblock_fault_signals_now();
}  // namespace detail

/// A fault of a thread that blocks its signal kills the process whatever the handler, so a thread that turns
/// pollers has both unblocked: done once per thread, ours (which block all others) and the application's.
/// Signals that are sent to the process go to its first thread all the same as long as that one takes them.
/// Returns true when this call did it.
inline bool unblock_fault_signals() {
  if (detail::fault_signals_unblocked) [[likely]]
    return false;
  detail::unblock_fault_signals_now();
  return true;
}

}  // namespace uroce::engine
