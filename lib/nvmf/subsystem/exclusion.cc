// Fused Compare and Write excludes all writers of the namespace by an acknowledged number. Other writers pay
// one load; writes pause while a pair runs.
#include "nvmf/subsystem/exclusion.h"

#include "base/values/contract.h"

namespace uroce::nvmf {

void Exclusion::join(Member& member) {
  const std::lock_guard guard(mutex_);
  ++members_;
  // It has no writes, and sees the number before it begins one.
  member.answered = number_.load(std::memory_order_relaxed);
}

void Exclusion::leave(Member& member) {
  const std::lock_guard guard(mutex_);
  UROCE_ASSERT(members_ > 0);
  --members_;
  const uint64_t number = number_.load(std::memory_order_relaxed);
  if (number % 2 == 1 && member.answered != number) --unanswered_;
}

void Exclusion::answer(Member& member) {
  if (member.answered == number_.load(std::memory_order_relaxed)) return;
  const std::lock_guard guard(mutex_);
  const uint64_t number = number_.load(std::memory_order_relaxed);
  if (number % 2 == 1 && member.answered != number) --unanswered_;
  member.answered = number;
}

bool Exclusion::take(Member& member) {
  const std::lock_guard guard(mutex_);
  const uint64_t number = number_.load(std::memory_order_relaxed);
  if (number % 2 == 1) return false;
  unanswered_ = members_ - 1;
  member.answered = number + 1;
  number_.store(number + 1, std::memory_order_release);  // pairs with wanted()
  return true;
}

bool Exclusion::granted() {
  const std::lock_guard guard(mutex_);
  return unanswered_ == 0;
}

void Exclusion::give_back() {
  const std::lock_guard guard(mutex_);
  const uint64_t number = number_.load(std::memory_order_relaxed);
  UROCE_ASSERT(number % 2 == 1);
  unanswered_ = 0;
  number_.store(number + 1, std::memory_order_release);  // pairs with wanted()
}

}  // namespace uroce::nvmf
