#include "allocations.h"

#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

uint64_t counter = 0;

void* counted(size_t bytes, size_t alignment) {
  ++counter;
  return alignment <= alignof(std::max_align_t)
             ? std::malloc(bytes)
             : std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

void* counted_or_end(size_t bytes, size_t alignment) {
  void* const memory = counted(bytes, alignment);
  if (memory == nullptr) std::abort();
  return memory;
}

size_t number_of(std::align_val_t alignment) { return static_cast<size_t>(alignment); }

}  // namespace

// All of them: what a form of the library's own allocates must not come to a form of ours to be freed.
void* operator new(size_t bytes) { return counted_or_end(bytes, 1); }
void* operator new[](size_t bytes) { return counted_or_end(bytes, 1); }
void* operator new(size_t bytes, const std::nothrow_t&) noexcept { return counted(bytes, 1); }
void* operator new[](size_t bytes, const std::nothrow_t&) noexcept { return counted(bytes, 1); }
void* operator new(size_t bytes, std::align_val_t alignment) {
  return counted_or_end(bytes, number_of(alignment));
}
void* operator new[](size_t bytes, std::align_val_t alignment) {
  return counted_or_end(bytes, number_of(alignment));
}
void* operator new(size_t bytes, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return counted(bytes, number_of(alignment));
}
void* operator new[](size_t bytes, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return counted(bytes, number_of(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t) noexcept { std::free(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete[](void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t, const std::nothrow_t&) noexcept { std::free(memory); }

uint64_t uroce::fuzz::allocations() { return counter; }
