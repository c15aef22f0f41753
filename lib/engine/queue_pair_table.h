#pragma once

#include <cassert>
#include <cstdint>

#include "base/identifiers.h"
#include "base/number_table.h"

namespace uroce::engine {

struct QueuePairEntry;

/// Queue pairs by number; 0 and 1 belong to management and are never handed out.
class QueuePairTable : public NumberTable<QpNumber, QueuePairEntry> {
 public:
  /// `numbers` is a power of two, at most 2^24.
  explicit QueuePairTable(uint32_t numbers) : NumberTable(numbers) {
    [[maybe_unused]] const auto one = allocate({});
    assert(one && one->value == 1);  // the first of them
  }
};

}  // namespace uroce::engine
