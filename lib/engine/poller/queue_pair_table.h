#pragma once

#include <cstdint>

#include "base/tables/number_table.h"
#include "base/values/contract.h"
#include "base/values/identifiers.h"

namespace uroce::engine {

struct PollerQp;

/// Queue pairs by number. Neither where the numbers begin nor their order can be foretold without the key: a
/// peer may still know those of a process that was killed, and takes a connection of another one with the
/// same number for a stale one; and a stranger that guesses a number may disturb a connection.
class QueuePairTable : public NumberTable<QpNumber, PollerQp> {
 public:
  /// 0 and 1 belong to management.
  static constexpr uint32_t kFirstMin = 2;
  /// The last number of all, which `numbers` of them end at at most, means every member of a group.
  static constexpr uint32_t first_max(uint32_t numbers) { return QpNumber::kMask + 1 - numbers; }

  /// `numbers` is at most 2^23; `first` is at least kFirstMin and at most first_max().
  explicit QueuePairTable(const Options& options) : NumberTable(options) {
    UROCE_ASSERT(options.first >= kFirstMin && options.first <= first_max(options.numbers));
  }
};

}  // namespace uroce::engine
