#include "drivers/process/signals_blocked.h"

#include <ctime>

namespace uroce::drivers {
namespace {

bool broken_pipe_pending() {
  sigset_t pending;
  sigpending(&pending);
  return sigismember(&pending, SIGPIPE) == 1;
}

}  // namespace

SignalsBlocked::SignalsBlocked() : broken_pipe_before_(broken_pipe_pending()) {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before_);
}

SignalsBlocked::~SignalsBlocked() {
  if (!broken_pipe_before_ && broken_pipe_pending()) {
    sigset_t broken_pipe;
    sigemptyset(&broken_pipe);
    sigaddset(&broken_pipe, SIGPIPE);
    constexpr timespec kAtOnce{};
    sigtimedwait(&broken_pipe, nullptr, &kAtOnce);
  }
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

}  // namespace uroce::drivers
