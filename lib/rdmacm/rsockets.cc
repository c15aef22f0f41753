#include <cerrno>
#include <cstdint>

#include "verbs/calls/export.h"

/// There are no rsockets here: what is returned is -1 of every size that the calls have.
extern "C" UROCE_EXPORT intptr_t uroce_rdmacm_no_sockets() {
  errno = ENOSYS;
  return -1;
}
