#pragma once

#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>

#include "base/identifiers.h"
#include "base/index_space.h"
#include "base/time.h"

namespace uroce::engine {

struct QueuePairEntry;

/// Queue pairs by number. Numbers have no spare bits that could tell two users of one number apart, so a
/// number rests after its queue pair is gone until no packet for it can be under way any more.
class QueuePairTable {
 public:
  /// How long a packet may live in the network, or wait in a peer that still resends it.
  static constexpr Duration kRest = seconds(4);

  /// `numbers` is a power of two, at most 2^24.
  explicit QueuePairTable(uint32_t numbers);

  // Control path, any thread.
  /// nullopt: all numbers are in use or rest. Never 0 or 1, which belong to management.
  std::optional<QpNumber> allocate(Instant now);
  void publish(QpNumber number, QueuePairEntry& entry);
  /// Readers that found the entry before may hold it until the grace period is over.
  void unpublish(QpNumber number);
  void give_back(QpNumber number, Instant now);

  // Pollers, during a turn.
  [[nodiscard]] QueuePairEntry* find(QpNumber number) const {
    if (number.value >= numbers_.backed()) return nullptr;
    return __atomic_load_n(slot(number), __ATOMIC_ACQUIRE);  // pairs with publish()
  }
  void prefetch(QpNumber number) const {
    if (number.value < numbers_.backed()) __builtin_prefetch(slot(number));
  }

 private:
  struct Resting {
    QpNumber number;
    Instant until;
  };

  [[nodiscard]] QueuePairEntry** slot(QpNumber number) const {
    return reinterpret_cast<QueuePairEntry**>(numbers_.at(number.value));
  }

  IndexSpace numbers_;
  std::mutex mutex_;
  std::deque<Resting> resting_;  // oldest first
};

}  // namespace uroce::engine
