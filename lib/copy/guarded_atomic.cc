#include "copy/guarded_atomic.h"

#include <cstring>

#include "base/values/contract.h"
#include "copy/guarded_copy.h"

// ThreadSanitizer holds a lock of its own around an atomic, and a fault would leave that held.
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define UROCE_WITHOUT_SANITIZER [[clang::disable_sanitizer_instrumentation]]
#endif
#endif
#ifndef UROCE_WITHOUT_SANITIZER
#define UROCE_WITHOUT_SANITIZER
#endif

namespace uroce::copy {
namespace {

using Word __attribute__((may_alias)) = uint64_t;
constexpr size_t kWordBytes = sizeof(Word);

struct Operands {
  uint64_t value = 0;
  uint64_t compare = 0;
  uint64_t* original = nullptr;
};

Operands operands_at(const std::byte* from) {
  Operands operands;
  std::memcpy(&operands, from, sizeof(operands));
  return operands;
}

// In the form of a CopyFunction, whose `from` are the operands.

UROCE_WITHOUT_SANITIZER void compare_swap(std::byte* to, const std::byte* from, size_t) {
  const Operands operands = operands_at(from);
  uint64_t there = operands.compare;
  __atomic_compare_exchange_n(reinterpret_cast<Word*>(to), &there, operands.value, false, __ATOMIC_SEQ_CST,
                              __ATOMIC_SEQ_CST);
  *operands.original = there;
}

UROCE_WITHOUT_SANITIZER void fetch_add(std::byte* to, const std::byte* from, size_t) {
  const Operands operands = operands_at(from);
  *operands.original = __atomic_fetch_add(reinterpret_cast<Word*>(to), operands.value, __ATOMIC_SEQ_CST);
}

UROCE_WITHOUT_SANITIZER void store(std::byte* to, const std::byte* from, size_t) {
  __atomic_store_n(reinterpret_cast<Word*>(to), operands_at(from).value, __ATOMIC_SEQ_CST);
}

bool guarded(CopyFunction function, std::byte* at, const Operands& operands) {
  UROCE_ASSERT(reinterpret_cast<uintptr_t>(at) % kWordBytes == 0);
  return guarded_copy_to(function, at, reinterpret_cast<const std::byte*>(&operands), kWordBytes);
}

}  // namespace

bool guarded_compare_swap(std::byte* at, uint64_t compare, uint64_t swap, uint64_t& original) {
  return guarded(compare_swap, at, {swap, compare, &original});
}

bool guarded_fetch_add(std::byte* at, uint64_t add, uint64_t& original) {
  return guarded(fetch_add, at, {add, 0, &original});
}

bool guarded_store(std::byte* at, uint64_t value) { return guarded(store, at, {value, 0, nullptr}); }

}  // namespace uroce::copy
