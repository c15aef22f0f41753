#include "rdmacm/core.h"

#include <random>

#include "base/process/forks.h"
#include "base/process/per_process.h"

namespace uroce::rdmacm {

// Ids that a forked child has inherited keep their handles, and must not be found by them.
Core::Core() : next_handle((uint64_t{fork_count()} << 40) + 1), random(std::random_device{}()) {}

Id* Core::find(uint64_t handle) const {
  const auto found = ids.find(handle);
  return found == ids.end() ? nullptr : found->second;
}

Core& core() {
  static PerProcess<Core> only;
  return only.get();
}

}  // namespace uroce::rdmacm
