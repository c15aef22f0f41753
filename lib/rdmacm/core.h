#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <unordered_map>

#include "base/values/random.h"

namespace uroce::rdmacm {

struct Id;

/// What all ids of the process share. One mutex is enough: everything here is control path. It is never held
/// while a device is called, because that may turn a poller, which takes it to tell of events.
struct Core {
  std::mutex mutex;
  std::condition_variable acknowledged;
  /// How pollers name ids: an id that is gone is found no more.
  std::unordered_map<uint64_t, Id*> ids;
  uint64_t next_handle;
  Random random;

  Core();
  /// Null: it is gone.
  [[nodiscard]] Id* find(uint64_t handle) const;
};

/// Never freed: the program may use it in its exit handlers. A forked child has one of its own.
Core& core();

}  // namespace uroce::rdmacm
