#include "engine/queue_pair_table.h"

#include <cassert>

namespace uroce::engine {

QueuePairTable::QueuePairTable(uint32_t numbers) : numbers_(numbers) {
  [[maybe_unused]] const auto one = numbers_.allocate();
  assert(one == 1u);  // the first index; 0 is never handed out
}

std::optional<QpNumber> QueuePairTable::allocate(Instant now) {
  const std::lock_guard guard(mutex_);
  for (; !resting_.empty() && resting_.front().until <= now; resting_.pop_front()) {
    numbers_.free(resting_.front().number.value);
  }
  const auto index = numbers_.allocate();
  if (!index) return std::nullopt;
  return QpNumber{*index};
}

void QueuePairTable::publish(QpNumber number, QueuePairEntry& entry) {
  __atomic_store_n(slot(number), &entry, __ATOMIC_RELEASE);  // pairs with find()
}

void QueuePairTable::unpublish(QpNumber number) {
  // Ordered before the turn lock's observe() by that read-modify-write itself.
  __atomic_store_n(slot(number), nullptr, __ATOMIC_RELEASE);
}

void QueuePairTable::give_back(QpNumber number, Instant now) {
  const std::lock_guard guard(mutex_);
  resting_.push_back({number, now + kRest});
}

}  // namespace uroce::engine
