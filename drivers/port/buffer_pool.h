#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/values/contract.h"

namespace uroce::drivers {

class BufferPool;

/// A frame buffer. The pointers share the first cache line with the frame's headers.
struct alignas(64) Buffer {
  static constexpr size_t kBlockBytes = 9344;  // not a multiple of 4096: buffers spread over the cache's sets
  static constexpr uint32_t kFrameBytes = kBlockBytes - 16;

  BufferPool* home;  // the same ever since the buffer was first taken
  Buffer* next;      // while it is free, or on its way home
  alignas(16) std::byte frame[kFrameBytes];
};
static_assert(sizeof(Buffer) == Buffer::kBlockBytes);

/// The transmit buffers of one queue. Taken by the poller of that queue, given back by any thread.
class BufferPool {
 public:
  static constexpr size_t kBuffers = 2048;

  /// Throws std::bad_alloc when there is no address space. Pages get memory when they are first used.
  BufferPool();
  ~BufferPool();
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  /// The owning poller: the buffer that came back last goes first (it is in the cache). nullptr when dry.
  Buffer* take() {
    if (free_ == nullptr && !collect()) [[unlikely]]
      return take_new();
    Buffer* const buffer = free_;
    free_ = buffer->next;
    return buffer;
  }
  /// The owning poller.
  void put(Buffer* buffer) {
    UROCE_ASSERT(buffer->home == this);
    buffer->next = free_;
    free_ = buffer;
  }
  /// Any thread: buffers of this pool, linked from `first` to `last`.
  void give_back(Buffer* first, Buffer* last) {
    Buffer* before = returned_.load(std::memory_order_relaxed);
    do {
      last->next = before;
    } while (
        !returned_.compare_exchange_weak(before, first, std::memory_order_release,
                                         std::memory_order_relaxed));  // pairs with the acquire in collect
  }

 private:
  /// What other threads gave back becomes free: all of it at once, so it does not matter that a buffer may
  /// have been away and back while one of them was at it. False: nothing.
  bool collect() {
    // Relaxed: a look first, because most of the time there is nothing new.
    if (returned_.load(std::memory_order_relaxed) == nullptr) return false;
    free_ = returned_.exchange(nullptr, std::memory_order_acquire);  // pairs with the release in give_back
    return true;
  }
  /// One that was never used, so that those cost no memory.
  Buffer* take_new();

  Buffer* memory_ = nullptr;
  size_t used_ = 0;  // buffers that were ever taken
  Buffer* free_ = nullptr;
  alignas(64) std::atomic<Buffer*> returned_{nullptr};
};

}  // namespace uroce::drivers
