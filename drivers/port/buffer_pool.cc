#include "drivers/port/buffer_pool.h"

#include <sys/mman.h>

#include <new>

#include "base/tables/memory_calls.h"

namespace uroce::drivers {

BufferPool::BufferPool() {
  std::byte* const memory =
      map_memory(nullptr, kBuffers * sizeof(Buffer), PROT_READ | PROT_WRITE, MAP_NORESERVE);
  if (memory == nullptr) throw std::bad_alloc();
  memory_ = reinterpret_cast<Buffer*>(memory);
}

BufferPool::~BufferPool() { unmap_memory(memory_, kBuffers * sizeof(Buffer)); }

Buffer* BufferPool::take_new() {
  if (used_ == kBuffers) return nullptr;
  Buffer* const buffer = &memory_[used_++];
  buffer->home = this;
  return buffer;
}

}  // namespace uroce::drivers
