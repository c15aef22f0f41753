#pragma once

#include <nlohmann/json.hpp>

#include "apps/stat/reading.h"

namespace uroce::statistics {

/// All of a reading, counters that are zero included.
nlohmann::json to_json(const Reading& reading);

nlohmann::json to_json(const host::QueuePairRow& row, const Reading::Process& process);

}  // namespace uroce::statistics
