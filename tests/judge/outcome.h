#pragma once

#include <stdexcept>

namespace uroce::judge {

/// What a run came to; the exit status of the program.
enum class Outcome : int {
  kRight = 0,
  kNotRun = 1,  // no device, no peer, wrong arguments
  kWrong = 2,   // a wrong byte, or a completion that should not be
  kStall = 3,   // nothing came for too long, or the queue pair has retried in vain
  kPeer = 4,    // the other end has given up
};

/// Other bytes or another completion than the model's.
struct Wrong : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Stall : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace uroce::judge
