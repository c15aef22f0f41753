#pragma once

#include <signal.h>

namespace uroce::drivers {

/// While it lives, no signal reaches the calling thread, and threads that it starts never get one: DPDK's
/// drivers start threads of their own. A write to a socket whose peer has gone (vhost, virtio-user) raises
/// SIGPIPE; the one that came meanwhile is forgotten, since the program has nothing to do with that socket.
class SignalsBlocked {
 public:
  SignalsBlocked();
  ~SignalsBlocked();
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
  bool broken_pipe_before_;
};

}  // namespace uroce::drivers
