#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/mpsc_ring.h"

namespace uroce::drivers {

class BufferPool;

/// A frame buffer. The home pointer shares the first cache line with the frame's headers.
struct alignas(64) Buffer {
  static constexpr size_t kBlockBytes = 9344;  // not a multiple of 4096: buffers spread over the cache's sets
  static constexpr uint32_t kFrameBytes = kBlockBytes - 16;

  BufferPool* home;
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

  /// The owning poller, once per burst: what other threads gave back becomes available.
  void collect();
  /// The owning poller: the buffer that came back last goes first (it is in the cache). nullptr when dry.
  Buffer* take();
  /// The owning poller.
  void put(Buffer* buffer);
  /// Any thread: to whichever pool it came from.
  static void give_back(Buffer* buffer);

 private:
  Buffer* memory_ = nullptr;
  std::vector<Buffer*> free_;   // never grows beyond its reserve
  MpscRing<Buffer*> returned_;  // room for every buffer, so it is never full
};

}  // namespace uroce::drivers
