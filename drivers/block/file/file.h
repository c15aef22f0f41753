#pragma once

#include <memory>

#include "base/values/result.h"
#include "block/block.h"
#include "drivers/block/specification.h"

namespace uroce::drivers {

/// A regular file or a block device, through io_uring and, where there is such a thing, past the page cache
/// (O_DIRECT). It is as long as it was when it was opened: what it grows by is not seen. Reads behind the end
/// of a file that was made shorter end with kMediaError; a write there makes it longer again. Errors are
/// listed in drivers/block_registry.h.
Result<std::unique_ptr<block::Device>> open_file(const BlockSpecification& specification);

}  // namespace uroce::drivers
