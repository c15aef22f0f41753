#pragma once

#include <memory>
#include <string_view>

#include "base/values/result.h"
#include "copy/engine.h"

namespace uroce::drivers {

/// Opens a DMA device of DPDK, with one channel. It must go through the process's addresses (shared virtual
/// addressing), so that no memory has to be mapped for it. Devices of a bus are there since EAL's start,
/// virtual ones (dma_skeleton) are made here. Control path, one thread at a time, also for its end. Errors
/// are one line: ENODEV (no such device), EBUSY (in use in this process), ENOTSUP (it cannot do what is
/// needed), EIO.
Result<std::unique_ptr<copy::Engine>> open_dmadev(std::string_view devargs);

}  // namespace uroce::drivers
