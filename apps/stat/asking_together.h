#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "apps/stat/shown_statistics.h"

namespace uroce::statistics {

/// Has processes write what they only write when asked: all of them together, so that one that does not
/// answer, or holds its lock, costs the others nothing. Rows of each, in their order; those of one that has
/// not answered by the time `until_ns` of CLOCK_MONOTONIC are what it said before (`current` is false).
struct AskingOptions {
  ShownStatistics::Wanted wanted;
  int64_t until_ns = 0;
  size_t rows_max = host::kRowsMax;  // of each
};
std::vector<ShownStatistics::Rows> ask_together(std::span<const ShownStatistics> all,
                                                const AskingOptions& options);

}  // namespace uroce::statistics
