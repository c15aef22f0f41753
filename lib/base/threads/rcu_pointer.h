#pragma once

#include <atomic>
#include <memory>

namespace uroce {

/// An immutable T that is replaced as a whole. Readers take no lock: what read() gives lives as long as the
/// reader's critical section (a poller's turn). Writers are serialised by the caller and keep what they
/// replaced until a grace period has passed.
template <typename T>
class RcuPointer {
 public:
  /// What was there before: to be destroyed after a grace period.
  using Retired = std::unique_ptr<const T>;

  explicit RcuPointer(Retired first) : now_(first.release()) {}
  // No reader is left: relaxed.
  ~RcuPointer() { delete now_.load(std::memory_order_relaxed); }
  RcuPointer(const RcuPointer&) = delete;
  RcuPointer& operator=(const RcuPointer&) = delete;

  /// Readers. Acquire pairs with replace(): what is seen is whole.
  [[nodiscard]] const T& read() const { return *now_.load(std::memory_order_acquire); }
  /// Writers; the lock that serialises them orders it: relaxed.
  [[nodiscard]] const T& current() const { return *now_.load(std::memory_order_relaxed); }
  [[nodiscard]] Retired replace(Retired next) {
    return Retired(now_.exchange(next.release(), std::memory_order_acq_rel));
  }

 private:
  std::atomic<const T*> now_;
};

}  // namespace uroce
