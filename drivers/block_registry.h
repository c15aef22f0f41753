#pragma once

#include <memory>

#include "base/values/result.h"
#include "block/block.h"
#include "drivers/block/specification.h"

namespace uroce::drivers {

/// Opens a block device. Control path, any thread. Errors are one line that names the thing: EINVAL (unknown
/// driver; size, block size, path or memory node missing, wrong or of no use to the driver), ENOMEM; and of
/// `file` ENOENT, EACCES and what else open(2) says, EISDIR, EBUSY (in use), ENOTSUP (neither file nor block
/// device), EPERM or ENOSYS (no io_uring here).
Result<std::unique_ptr<block::Device>> open_block_device(const BlockSpecification& specification);

}  // namespace uroce::drivers
