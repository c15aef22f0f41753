#include "drivers/port/loopback/buffer_pool.h"

#include <sys/mman.h>

#include <new>

namespace uroce::drivers {

BufferPool::BufferPool() {
  void* memory = mmap(nullptr, kBuffers * sizeof(Buffer), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  memory_ = static_cast<Buffer*>(memory);
}

BufferPool::~BufferPool() { munmap(memory_, kBuffers * sizeof(Buffer)); }

Buffer* BufferPool::take_new() {
  if (used_ == kBuffers) return nullptr;
  Buffer* const buffer = &memory_[used_++];
  buffer->home = this;
  return buffer;
}

}  // namespace uroce::drivers
