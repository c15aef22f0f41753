#pragma once

#include <infiniband/urocedv.h>

namespace uroce::nvmf {

/// What the target uses of urocedv.h. It is found at run time and only where the program's verbs are uroce's:
/// linked, it would bring this stack into a process that uses another verbs library.
struct DirectVerbs {
  decltype(&urocedv_dma_map_single) map = nullptr;
  decltype(&urocedv_dma_unmap_single) unmap = nullptr;
  decltype(&urocedv_reg_phys_mr) register_physical = nullptr;
  decltype(&urocedv_get_dma_mr) get_dma_region = nullptr;
  decltype(&urocedv_is_supported) is_supported = nullptr;
};

/// Null: the device has no bus addresses. Any thread.
const DirectVerbs* direct_verbs(ibv_device& device);

}  // namespace uroce::nvmf
