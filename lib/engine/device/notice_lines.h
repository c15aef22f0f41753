#pragma once

#include <cstdint>
#include <string_view>

#include "qp/attributes/notice.h"

namespace uroce::engine {

/// A line of the log about an object of a device, with its number as a field. Control path.
void write_notice(std::string_view device, const qp::Notice& notice);
/// A line that `lost` notices of a device were not kept, as there were too many at once.
void write_lost_notices(std::string_view device, uint64_t lost);

}  // namespace uroce::engine
