#include "rdmacm/core.h"

#include <random>

namespace uroce::rdmacm {

Core::Core() : random(std::random_device{}()) {}

Id* Core::find(uint64_t handle) const {
  const auto found = ids.find(handle);
  return found == ids.end() ? nullptr : found->second;
}

Core& core() {
  static Core& only = *new Core;
  return only;
}

}  // namespace uroce::rdmacm
