#include "base/tables/index_order.h"

#include <numeric>
#include <utility>

#include "base/values/contract.h"

namespace uroce {
namespace {

uint32_t take_front(std::deque<uint32_t>& from) {
  const uint32_t index = from.front();
  from.pop_front();
  return index;
}

/// The order of a vector does not matter here.
uint32_t take_at(std::vector<uint32_t>& from, size_t at) {
  const uint32_t index = std::exchange(from[at], from.back());
  from.pop_back();
  return index;
}

}  // namespace

void IndexOrder::add(uint32_t first, uint32_t end) {
  UROCE_ASSERT(first < end);
  if (!options_.key) {
    UROCE_ASSERT(next_ == end_);
    next_ = first;
    end_ = end;
    return;
  }
  const size_t before = fresh_.size();
  fresh_.resize(before + (end - first));
  std::iota(fresh_.begin() + static_cast<std::ptrdiff_t>(before), fresh_.end(), first);
}

bool IndexOrder::wants_more(size_t pool) const {
  const Pool& from = pools_[pool];
  if (!options_.key) return fresh() == 0 && from.resting.size() <= options_.resting_min;
  return fresh() + from.ripe.size() < options_.candidates_min;
}

std::optional<uint32_t> IndexOrder::take(size_t pool) {
  if (const auto index = take_any(pools_[pool])) return index;
  // The space is full: what another pool has is better than nothing.
  for (Pool& other : pools_) {
    if (const auto index = take_any(other)) return index;
  }
  return std::nullopt;
}

std::optional<uint32_t> IndexOrder::take_any(Pool& pool) {
  const bool rested = pool.resting.size() > options_.resting_min;
  if (!options_.key) {
    if (rested || fresh() == 0)
      return pool.resting.empty() ? std::nullopt : std::optional(take_front(pool.resting));
    return next_++;
  }
  const size_t candidates = fresh_.size() + pool.ripe.size();
  if (candidates == 0) return pool.resting.empty() ? std::nullopt : std::optional(take_front(pool.resting));
  const size_t chosen = keyed_hash(*options_.key, taken_++, 0) % candidates;
  return chosen < fresh_.size() ? take_at(fresh_, chosen) : take_at(pool.ripe, chosen - fresh_.size());
}

void IndexOrder::give_back(uint32_t index, size_t pool) {
  Pool& to = pools_[pool];
  to.resting.push_back(index);
  if (options_.key && to.resting.size() > options_.resting_min) to.ripe.push_back(take_front(to.resting));
}

}  // namespace uroce
