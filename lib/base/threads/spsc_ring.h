#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <memory>

#include "base/values/contract.h"

namespace uroce {

/// Bounded ring with one producing and one consuming thread. T is trivially copyable.
template <typename T>
class SpscRing {
 public:
  /// `capacity` is a power of two.
  explicit SpscRing(size_t capacity) : mask_(capacity - 1), slots_(std::make_unique<T[]>(capacity)) {
    UROCE_ASSERT(std::has_single_bit(capacity));
  }

  /// Producer. False when full.
  bool push(const T& value) {
    return push_burst(1, [&](size_t) { return value; }) == 1;
  }

  /// Producer. The next `count` values, of which make(i) gives number i, as far as there is room; they become
  /// visible together. How many that were.
  template <typename Make>
  size_t push_burst(size_t count, Make make) {
    const size_t tail = tail_.load(std::memory_order_relaxed);
    if (tail + count - cached_head_ > mask_ + 1) {
      cached_head_ = head_.load(std::memory_order_acquire);  // pairs with the release in pop_burst
      count = std::min(count, mask_ + 1 - (tail - cached_head_));
    }
    visit(tail, count, [&](size_t i, T& slot) { slot = make(i); });
    tail_.store(tail + count, std::memory_order_release);  // pairs with the acquire in pop_burst
    return count;
  }

  /// Consumer. False when empty.
  bool pop(T& value) {
    return pop_burst(1, [&](size_t, const T& front) { value = front; }) == 1;
  }

  /// Consumer. Up to `count_max` values: take(i, value) sees number i. How many there were.
  template <typename Take>
  size_t pop_burst(size_t count_max, Take take) {
    const size_t head = head_.load(std::memory_order_relaxed);
    if (cached_tail_ - head < count_max) {
      cached_tail_ = tail_.load(std::memory_order_acquire);  // pairs with the release in push_burst
      if (head == cached_tail_) return 0;
    }
    const size_t count = std::min(count_max, cached_tail_ - head);
    visit(head, count, [&](size_t i, const T& slot) { take(i, slot); });
    head_.store(head + count, std::memory_order_release);  // pairs with the acquire in push_burst
    return count;
  }

  /// Consumer. What pop() would give; not empty().
  [[nodiscard]] const T& front() const { return slots_[head_.load(std::memory_order_relaxed) & mask_]; }

  /// Any thread; a moment's truth.
  [[nodiscard]] size_t size() const {
    // The head first: the tail is never behind it then.
    const size_t head = head_.load(std::memory_order_acquire);
    return tail_.load(std::memory_order_acquire) - head;
  }
  [[nodiscard]] bool empty() const {
    return head_.load(std::memory_order_acquire) == tail_.load(std::memory_order_acquire);
  }

 private:
  /// The slots from position `begin` on: `each` sees their numbers from 0 on, too. They lie in one piece, or
  /// in two around the end.
  template <typename Each>
  void visit(size_t begin, size_t count, Each each) {
    for (size_t done = 0; done < count;) {
      T* slot = &slots_[(begin + done) & mask_];
      const size_t end = std::min(count, done + static_cast<size_t>(slots_.get() + mask_ + 1 - slot));
      for (; done < end; ++done) each(done, *slot++);
    }
  }

  const size_t mask_;
  const std::unique_ptr<T[]> slots_;
  alignas(64) std::atomic<size_t> head_{0};
  size_t cached_tail_ = 0;  // consumer's view
  alignas(64) std::atomic<size_t> tail_{0};
  size_t cached_head_ = 0;  // producer's view
};

}  // namespace uroce
