#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdlib>
#include <memory>

namespace uroce::client {

/// Verbs objects that end themselves. Members of a class stand in the order of making.
template <auto kDestroy>
struct Destroyer {
  template <typename T>
  void operator()(T* object) const {
    kDestroy(object);
  }
};

using DeviceList = std::unique_ptr<ibv_device*[], Destroyer<ibv_free_device_list>>;
using Context = std::unique_ptr<ibv_context, Destroyer<ibv_close_device>>;
using ProtectionDomain = std::unique_ptr<ibv_pd, Destroyer<ibv_dealloc_pd>>;
using MemoryRegion = std::unique_ptr<ibv_mr, Destroyer<ibv_dereg_mr>>;
using CompletionQueue = std::unique_ptr<ibv_cq, Destroyer<ibv_destroy_cq>>;
using AddressHandle = std::unique_ptr<ibv_ah, Destroyer<ibv_destroy_ah>>;
using QueuePair = std::unique_ptr<ibv_qp, Destroyer<ibv_destroy_qp>>;
using Buffer = std::unique_ptr<std::byte[], Destroyer<std::free>>;

}  // namespace uroce::client
