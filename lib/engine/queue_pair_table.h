#pragma once

#include <cassert>
#include <cstdint>

#include "base/identifiers.h"
#include "base/number_table.h"

namespace uroce::engine {

struct QueuePairEntry;

/// Queue pairs by number. Not all begin at the same: a peer may still know those of a process that was
/// killed, and takes a connection of another one with the same number for a stale one.
class QueuePairTable : public NumberTable<QpNumber, QueuePairEntry> {
 public:
  /// 0 and 1 belong to management.
  static constexpr uint32_t kFirstMin = 2;
  /// The last number of all, which `numbers` of them end at at most, means every member of a group.
  static constexpr uint32_t first_max(uint32_t numbers) { return QpNumber::kMask + 1 - numbers; }

  /// `numbers` is a power of two, at most 2^23; `first` is at least kFirstMin and at most first_max().
  QueuePairTable(uint32_t numbers, uint32_t first) : NumberTable(numbers, first) {
    assert(first >= kFirstMin && first <= first_max(numbers));
  }
};

}  // namespace uroce::engine
