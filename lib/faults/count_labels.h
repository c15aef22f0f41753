#pragma once

#include <array>
#include <string_view>

#include "base/counters/fault_counts.h"

namespace uroce::faults {

/// Names of the counts, by FaultCount.
inline constexpr std::array<std::string_view, static_cast<size_t>(FaultCount::kCount)> kCountLabels = {
    "seen", "lost", "delayed", "reordered", "duplicated", "corrupted", "marked", "refused", "overflowed"};

}  // namespace uroce::faults
