#include "tests/unit/qp/refused_memory.h"

#include <atomic>
#include <cstddef>
#include <new>

namespace {

std::atomic<bool> refuses{false};

/// By way of the one that throws, whose memory `operator delete` expects.
template <typename Allocate>
void* unless_refused(Allocate allocate) noexcept {
  if (refuses.load()) return nullptr;
  try {
    return allocate();
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

}  // namespace

void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  return unless_refused([bytes] { return ::operator new(bytes); });
}
void* operator new[](size_t bytes, const std::nothrow_t&) noexcept {
  return unless_refused([bytes] { return ::operator new[](bytes); });
}

namespace uroce::qp::testing {

RefusedMemory::RefusedMemory() { refuses.store(true); }
RefusedMemory::~RefusedMemory() { refuses.store(false); }

}  // namespace uroce::qp::testing
