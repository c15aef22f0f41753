#pragma once

#include <memory>

#include "base/values/result.h"
#include "block/block.h"
#include "drivers/block/specification.h"

namespace uroce::drivers {

/// A device of this process's memory: begins as zeroes, and its contents end with it. Reads and writes are
/// made by submit(); zeroing, of which a request may ask for any amount, a slice with every poll(). What is
/// deallocated reads as zeroes and keeps its memory: memory() may be known to others by its pages. Two
/// requests for the same blocks at the same time: what one of them wrote may be mixed with what the other
/// did. Errors: ENOMEM, EINVAL (no such memory node).
Result<std::unique_ptr<block::Device>> open_ram(const BlockSpecification& specification);

}  // namespace uroce::drivers
