#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <memory>

#include "base/values/contract.h"

namespace uroce {

/// Bounded ring with many producing threads and one consumer (Vyukov's bounded queue: every slot carries the
/// ticket that may use it next). T is trivially copyable.
template <typename T>
class MpscRing {
 public:
  /// `capacity` is a power of two.
  explicit MpscRing(size_t capacity) : mask_(capacity - 1), slots_(std::make_unique<Slot[]>(capacity)) {
    UROCE_ASSERT(std::has_single_bit(capacity));
    for (size_t i = 0; i < capacity; ++i) slots_[i].ticket.store(i, std::memory_order_relaxed);
  }

  /// Any thread. False when full.
  bool push(const T& value) {
    size_t tail = tail_.load(std::memory_order_relaxed);
    for (;;) {
      Slot& slot = slots_[tail & mask_];
      const size_t ticket = slot.ticket.load(std::memory_order_acquire);  // pairs with the release in pop
      if (ticket == tail) {
        if (tail_.compare_exchange_weak(tail, tail + 1, std::memory_order_relaxed)) {
          slot.value = value;
          slot.ticket.store(tail + 1, std::memory_order_release);  // pairs with the acquire in pop
          return true;
        }
      } else if (static_cast<ptrdiff_t>(ticket - tail) < 0) {
        return false;
      } else {
        tail = tail_.load(std::memory_order_relaxed);
      }
    }
  }

  /// The consumer: pop() would find nothing.
  [[nodiscard]] bool empty() const {
    return slots_[head_ & mask_].ticket.load(std::memory_order_relaxed) != head_ + 1;  // pop() synchronises
  }
  /// The consumer. False when empty.
  bool pop(T& value) {
    Slot& slot = slots_[head_ & mask_];
    if (slot.ticket.load(std::memory_order_acquire) != head_ + 1) return false;  // pairs with push
    value = slot.value;
    slot.ticket.store(head_ + mask_ + 1, std::memory_order_release);  // pairs with push
    ++head_;
    return true;
  }

 private:
  struct Slot {
    std::atomic<size_t> ticket;
    T value;
  };

  const size_t mask_;
  const std::unique_ptr<Slot[]> slots_;
  alignas(64) std::atomic<size_t> tail_{0};
  alignas(64) size_t head_ = 0;
};

}  // namespace uroce
