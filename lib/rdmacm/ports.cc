#include "rdmacm/ports.h"

namespace uroce::rdmacm {

Result<uint16_t> Ports::bind(uint64_t handle, const host::PortRequest& request) {
  if (host::SharedDevice* const shared = shared_()) return shared->bind(handle, request);
  const std::lock_guard guard(mutex_);
  return own_.bind(request, {.id = handle});
}

Status Ports::claim(uint64_t handle) {
  if (host::SharedDevice* const shared = shared_()) return shared->listen(handle);
  const std::lock_guard guard(mutex_);
  return own_.claim({.id = handle});
}

void Ports::release(uint64_t handle) {
  if (host::SharedDevice* const shared = shared_()) return shared->release(handle);
  const std::lock_guard guard(mutex_);
  own_.release({.id = handle});
}

}  // namespace uroce::rdmacm
