// Unwinding out of the middle of DPDK or of a turn leaves nothing that could go on. So pthread_cancel() is
// put off, and permitted again around waits that may last for ever. Cost: 15 ns for each outermost object.
#include "base/process/cancellation.h"

#include <pthread.h>

#include <cstdint>

namespace uroce {
namespace {

/// What the calling thread holds off. initial-exec: no call, and no memory that is made when it is first
/// touched.
struct Held {
  uint32_t depth = 0;
  int before = PTHREAD_CANCEL_ENABLE;  // as the program had it
};
constinit thread_local Held held __attribute__((tls_model("initial-exec")));

}  // namespace

CancellationDisabled::CancellationDisabled() noexcept {
  if (held.depth++ == 0) pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &held.before);
}

CancellationDisabled::~CancellationDisabled() {
  if (--held.depth == 0) pthread_setcancelstate(held.before, nullptr);
}

CancellableWait::CancellableWait() noexcept {
  if (held.depth != 0) pthread_setcancelstate(held.before, nullptr);
}

CancellableWait::~CancellableWait() {
  if (held.depth != 0) pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, nullptr);
}

}  // namespace uroce
