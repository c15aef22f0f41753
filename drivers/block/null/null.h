#pragma once

#include <memory>

#include "base/values/result.h"
#include "block/block.h"
#include "drivers/block/specification.h"

namespace uroce::drivers {

/// A device of any size with nothing behind it: whatever it is asked for is done with the next poll(). What
/// is written is lost, and a read leaves the request's memory as it was, as the null devices of Linux and
/// SPDK do: the reader gets what lay there before, be it another's. For measuring what is in front of it, and
/// nothing else.
Result<std::unique_ptr<block::Device>> open_null(const BlockSpecification& specification);

}  // namespace uroce::drivers
