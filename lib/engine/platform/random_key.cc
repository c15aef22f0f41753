#include "engine/platform/random_key.h"

#include <sys/random.h>

#include <cerrno>

namespace uroce::engine {

Result<HashKey> random_key() {
  HashKey key;
  // So few bytes come all at once, or not at all.
  while (::getrandom(&key, sizeof(key), 0) != static_cast<ssize_t>(sizeof(key))) {
    if (errno != EINTR) return Error{errno, "the kernel has no random bytes"};
  }
  return key;
}

}  // namespace uroce::engine
