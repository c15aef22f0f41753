#pragma once

#include <bit>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>

#include "base/tables/index_space.h"
#include "base/values/contract.h"
#include "base/values/keyed_hash.h"
#include "base/values/time.h"

namespace uroce {

/// Objects that peers know by a 24-bit number. Numbers have no spare bits that could tell two users of one
/// number apart, so a number rests after its object is gone until no packet for it can be under way any more.
///
/// A number is the index of a slot and a generation. With a key, slots come back in an order that no stranger
/// can foretell (IndexOrder). Each comes back with the next generation, so that a number returns only after
/// all `generations` of its slot, and every time the slot has rested while kSlotsRestingMin others were in
/// use. A number that no peer has known need not rest: nothing is under way to it.
template <typename Number, typename Object>
class NumberTable {
 public:
  /// How long a packet may live in the network, or wait in a peer that still resends it.
  static constexpr Duration kRest = seconds(4);
  static constexpr uint32_t kSlotsRestingMin = 1u << 14;

  struct Options {
    uint32_t numbers = 2;                       // a power of two, at most 2^24
    uint32_t first = 1;                         // the lowest number; not 0
    uint32_t generations = 1;                   // of each slot: a power of two; numbers / generations slots
    std::optional<HashKey> key = std::nullopt;  // decides about the order; without one it is ascending
    IndexSpace::Pages pages = IndexSpace::Pages::kHuge;
  };
  explicit NumberTable(const Options& options)
      : offset_(options.first - 1),
        slots_(options.numbers / options.generations),
        generations_(options.generations),
        key_(options.key.value_or(HashKey{})),
        numbers_(slots_, options.pages,
                 {.key = options.key, .resting_min = kSlotsRestingMin, .candidates_min = 1u << 13}) {
    UROCE_ASSERT(options.first > 0 && std::has_single_bit(generations_) &&
                 options.numbers >= 2 * generations_);
  }

  // Control path, any thread.
  /// nullopt: all numbers are in use or rest.
  std::optional<Number> allocate(Instant now) {
    const std::lock_guard guard(mutex_);
    for (; !resting_.empty() && resting_.front().until <= now; resting_.pop_front())
      numbers_.free(resting_.front().index);
    const auto index = numbers_.allocate();
    if (!index) return std::nullopt;
    Slot& slot = slot_at(*index);
    if (slot.generation == 0)
      slot.generation = static_cast<uint32_t>(keyed_hash(key_, *index, kGeneration)) | 1u << 31;
    const uint32_t generation = ++slot.generation & (generations_ - 1);
    slot.number = generation * slots_ + *index + offset_;
    return Number{slot.number};
  }
  void publish(Number number, Object& object) {
    __atomic_store_n(&slot_of(number).object, &object, __ATOMIC_RELEASE);  // pairs with find()
  }
  /// Readers that found the object before may hold it until the grace period is over.
  void unpublish(Number number) {
    // Ordered before the turn lock's observe() by that read-modify-write itself.
    __atomic_store_n(&slot_of(number).object, nullptr, __ATOMIC_RELEASE);
  }
  enum class Known : uint8_t { kToNobody, kToPeers };
  /// After that grace period.
  void give_back(Number number, Instant now, Known known = Known::kToPeers) {
    const std::lock_guard guard(mutex_);
    if (known == Known::kToNobody) return numbers_.free(index_of(number));
    resting_.push_back({index_of(number), now + Duration{kRest.ns / generations_}});
  }
  /// When the first of those that rest now has rested; nullopt: none rests.
  [[nodiscard]] std::optional<Instant> rested_at() const {
    const std::lock_guard guard(mutex_);
    return resting_.empty() ? std::nullopt : std::optional(resting_.front().until);
  }

  /// Objects that may live at once.
  [[nodiscard]] uint32_t capacity() const { return slots_ - 1; }

  // Pollers, during a turn. Any value a packet can hold will do.
  [[nodiscard]] Object* find(Number number) const {
    const uint32_t index = index_of(number);
    if (index >= numbers_.backed()) return nullptr;
    const Slot& slot = slot_at(index);
    Object* const object = __atomic_load_n(&slot.object, __ATOMIC_ACQUIRE);  // pairs with publish()
    // It changes only when no thread can have the object any more.
    return object != nullptr && slot.number == number.value ? object : nullptr;
  }
  void prefetch(Number number) const {
    const uint32_t index = index_of(number);
    if (index < numbers_.backed()) __builtin_prefetch(&slot_at(index));
  }

 private:
  static constexpr uint64_t kGeneration = 1;  // beside what IndexOrder hashes

  struct Slot {
    Object* object;
    uint32_t number;
    uint32_t generation;  // counts up; 0: never used
  };
  static_assert(sizeof(Slot) <= IndexSpace::kEntryBytes);

  struct Resting {
    uint32_t index;
    Instant until;
  };

  /// The slot that any number leads to; the slot says whether it is its number.
  [[nodiscard]] uint32_t index_of(Number number) const { return (number.value - offset_) & (slots_ - 1); }
  [[nodiscard]] Slot& slot_at(uint32_t index) const { return *reinterpret_cast<Slot*>(numbers_.at(index)); }
  [[nodiscard]] Slot& slot_of(Number number) const { return slot_at(index_of(number)); }

  const uint32_t offset_;  // of a number over its generation and index
  const uint32_t slots_;
  const uint32_t generations_;
  const HashKey key_;
  IndexSpace numbers_;
  mutable std::mutex mutex_;
  std::deque<Resting> resting_;  // oldest first
};

}  // namespace uroce
