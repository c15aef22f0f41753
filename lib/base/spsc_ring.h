#pragma once

#include <atomic>
#include <bit>
#include <cassert>
#include <cstddef>
#include <memory>

namespace uroce {

/// Bounded ring with one producing and one consuming thread. T is trivially copyable.
template <typename T>
class SpscRing {
 public:
  /// `capacity` is a power of two.
  explicit SpscRing(size_t capacity) : mask_(capacity - 1), slots_(std::make_unique<T[]>(capacity)) {
    assert(std::has_single_bit(capacity));
  }

  /// Producer. False when full.
  bool push(const T& value) {
    const size_t tail = tail_.load(std::memory_order_relaxed);
    if (tail - cached_head_ > mask_) {
      cached_head_ = head_.load(std::memory_order_acquire);  // pairs with the release in pop
      if (tail - cached_head_ > mask_) return false;
    }
    slots_[tail & mask_] = value;
    tail_.store(tail + 1, std::memory_order_release);  // pairs with the acquire in pop
    return true;
  }

  /// Consumer. False when empty.
  bool pop(T& value) {
    const size_t head = head_.load(std::memory_order_relaxed);
    if (head == cached_tail_) {
      cached_tail_ = tail_.load(std::memory_order_acquire);  // pairs with the release in push
      if (head == cached_tail_) return false;
    }
    value = slots_[head & mask_];
    head_.store(head + 1, std::memory_order_release);  // pairs with the acquire in push
    return true;
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
  const size_t mask_;
  const std::unique_ptr<T[]> slots_;
  alignas(64) std::atomic<size_t> head_{0};
  size_t cached_tail_ = 0;  // consumer's view
  alignas(64) std::atomic<size_t> tail_{0};
  size_t cached_head_ = 0;  // producer's view
};

}  // namespace uroce
