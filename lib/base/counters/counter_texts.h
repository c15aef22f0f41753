#pragma once

#include <cstdint>
#include <string_view>

#include "base/counters/counters.h"

namespace uroce {

/// What people and tools are told of a counter.
struct CounterTexts {
  std::string_view label;
  std::string_view unit;  // plural
  std::string_view help;  // without a full stop
};

const CounterTexts& texts_of(Counter counter);

/// Differs when the counters do, or the latencies, or their order: processes of two builds that look at each
/// other's memory compare it.
uint64_t counter_table_hash();

}  // namespace uroce
