#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "base/values/keyed_hash.h"

namespace uroce {

/// Which of the free indexes of an IndexSpace is handed out next.
///
/// Without a key: the lowest that was never used, and freed ones in the order in which they were freed when
/// more than `resting_min` of them rest or no fresh one is left.
///
/// With a key: any of the candidates, which are the indexes that were never used and those that were freed
/// before the last `resting_min`, each with the same probability. Without the key one cannot tell
/// which comes next, whatever it has seen.
///
/// Freed indexes are kept apart in pools, and come back to the pool that they were freed into as long as it
/// or the fresh ones have any. Control path, one thread at a time. Throws std::bad_alloc.
class IndexOrder {
 public:
  static constexpr size_t kPools = 2;

  struct Options {
    std::optional<HashKey> key = std::nullopt;
    uint32_t resting_min = 1024;
    uint32_t candidates_min = 1u << 14;  // with a key: with fewer, more fresh ones are wanted
  };
  explicit IndexOrder(const Options& options) : options_(options) {}

  /// More fresh ones, [first, end): above all before.
  void add(uint32_t first, uint32_t end);
  /// Before take(): fresh ones should be added if there are any more.
  [[nodiscard]] bool wants_more(size_t pool) const;
  /// nullopt: none is free.
  std::optional<uint32_t> take(size_t pool);
  void give_back(uint32_t index, size_t pool);

 private:
  struct Pool {
    std::deque<uint32_t> resting;  // oldest first
    std::vector<uint32_t> ripe;    // with a key: have rested
  };

  std::optional<uint32_t> take_any(Pool& pool);
  [[nodiscard]] size_t fresh() const { return options_.key ? fresh_.size() : end_ - next_; }

  const Options options_;
  uint64_t taken_ = 0;
  std::vector<uint32_t> fresh_;  // with a key
  uint32_t next_ = 0;            // without one: fresh ones are [next_, end_)
  uint32_t end_ = 0;
  Pool pools_[kPools];
};

}  // namespace uroce
