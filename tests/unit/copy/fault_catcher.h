#pragma once

#include <signal.h>

#include "copy/guarded_copy.h"

namespace uroce::testing {

/// The least that a process needs for guarded copies, for tests without an engine: faults that are not theirs
/// kill.
class FaultCatcher {
 public:
  FaultCatcher() {
    struct sigaction action = {};
    action.sa_sigaction = [](int signal, siginfo_t* info, void* context) {
      if (!copy::take_fault(signal, *info, context)) ::signal(signal, SIG_DFL);
    };
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigaction(SIGSEGV, &action, &segv_);
    sigaction(SIGBUS, &action, &bus_);
  }
  ~FaultCatcher() {
    sigaction(SIGSEGV, &segv_, nullptr);
    sigaction(SIGBUS, &bus_, nullptr);
  }
  FaultCatcher(const FaultCatcher&) = delete;
  FaultCatcher& operator=(const FaultCatcher&) = delete;

 private:
  struct sigaction segv_ = {};
  struct sigaction bus_ = {};
};

}  // namespace uroce::testing
