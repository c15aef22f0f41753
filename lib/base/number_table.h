#pragma once

#include <cassert>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>

#include "base/index_space.h"
#include "base/time.h"

namespace uroce {

/// Objects that peers know by a 24-bit number. Numbers have no spare bits that could tell two users of one
/// number apart, so a number rests after its object is gone until no packet for it can be under way any more.
template <typename Number, typename Object>
class NumberTable {
 public:
  /// How long a packet may live in the network, or wait in a peer that still resends it.
  static constexpr Duration kRest = seconds(4);

  /// `numbers` is a power of two, at most 2^24. The numbers begin at `first`, not 0.
  explicit NumberTable(uint32_t numbers, uint32_t first = 1) : offset_(first - 1), numbers_(numbers) {
    assert(first > 0);
  }

  // Control path, any thread.
  /// nullopt: all numbers are in use or rest.
  std::optional<Number> allocate(Instant now) {
    const std::lock_guard guard(mutex_);
    for (; !resting_.empty() && resting_.front().until <= now; resting_.pop_front())
      numbers_.free(index_of(resting_.front().number));
    const auto index = numbers_.allocate();
    if (!index) return std::nullopt;
    return Number{*index + offset_};
  }
  void publish(Number number, Object& object) {
    __atomic_store_n(slot_at(index_of(number)), &object, __ATOMIC_RELEASE);  // pairs with find()
  }
  /// Readers that found the object before may hold it until the grace period is over.
  void unpublish(Number number) {
    // Ordered before the turn lock's observe() by that read-modify-write itself.
    __atomic_store_n(slot_at(index_of(number)), nullptr, __ATOMIC_RELEASE);
  }
  void give_back(Number number, Instant now) {
    const std::lock_guard guard(mutex_);
    resting_.push_back({number, now + kRest});
  }

  // Pollers, during a turn. Any value a packet can hold will do.
  [[nodiscard]] Object* find(Number number) const {
    const uint32_t index = index_of(number);
    if (index >= numbers_.backed()) return nullptr;
    return __atomic_load_n(slot_at(index), __ATOMIC_ACQUIRE);  // pairs with publish()
  }
  void prefetch(Number number) const {
    const uint32_t index = index_of(number);
    if (index < numbers_.backed()) __builtin_prefetch(slot_at(index));
  }

 private:
  struct Resting {
    Number number;
    Instant until;
  };

  /// One of a number before the first is larger than any.
  [[nodiscard]] uint32_t index_of(Number number) const { return number.value - offset_; }
  [[nodiscard]] Object** slot_at(uint32_t index) const {
    return reinterpret_cast<Object**>(numbers_.at(index));
  }

  const uint32_t offset_;  // of a number over its index
  IndexSpace numbers_;
  std::mutex mutex_;
  std::deque<Resting> resting_;  // oldest first
};

}  // namespace uroce
