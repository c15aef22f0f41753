#include "drivers/port/loopback/buffer_pool.h"

#include <sys/mman.h>

#include <cassert>
#include <new>

namespace uroce::drivers {

BufferPool::BufferPool() : returned_(kBuffers) {
  void* memory = mmap(nullptr, kBuffers * sizeof(Buffer), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  memory_ = static_cast<Buffer*>(memory);
  free_.reserve(kBuffers);
  // The first buffers end up on top. `home` is written by take(), so that an unused buffer costs no memory.
  for (size_t i = kBuffers; i-- > 0;) free_.push_back(&memory_[i]);
}

BufferPool::~BufferPool() { munmap(memory_, kBuffers * sizeof(Buffer)); }

void BufferPool::collect() {
  for (Buffer* buffer = nullptr; returned_.pop(buffer);) free_.push_back(buffer);
}

Buffer* BufferPool::take() {
  if (free_.empty()) return nullptr;
  Buffer* buffer = free_.back();
  free_.pop_back();
  buffer->home = this;
  return buffer;
}

void BufferPool::put(Buffer* buffer) {
  assert(buffer->home == this && free_.size() < kBuffers);
  free_.push_back(buffer);
}

void BufferPool::give_back(Buffer* buffer) {
  [[maybe_unused]] const bool kept = buffer->home->returned_.push(buffer);
  assert(kept);
}

}  // namespace uroce::drivers
