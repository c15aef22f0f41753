// A path MTU of 4096 is carried as frames of two pieces (XDP_USE_SG, Linux 6.6), because the kernel takes no
// chunk larger than a page (a UMEM with larger ones is EINVAL in 6.18, hugepages included).
// The two chunks of a frame adjoin and only the first is given to the kernel to receive into, so the stack
// sees one contiguous frame: it is sent without a copy, and of a received frame the second piece, 300 bytes
// of a packet of 4096, is copied behind the first.
// Cost: 50 MB for a queue instead of 25, and zero-copy only with drivers that support several pieces.
#include "drivers/port/xdp/frame_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <new>

#include "base/tables/memory_calls.h"

namespace uroce::drivers {

FrameMemory::FrameMemory(size_t count, Frames frames)
    : bytes_per_frame_(static_cast<uint64_t>(frames) * kChunkBytes),
      bytes_(count * bytes_per_frame_),
      base_(map_memory(nullptr, bytes_, PROT_READ | PROT_WRITE, 0)),
      has_second_piece_(frames == Frames::kLong ? count : 0) {
  if (base_ == nullptr) throw std::bad_alloc();
  // A page that is copied when a forked child or its parent writes would not be the kernel's any more.
  advise_memory(base_, bytes(), MADV_DONTFORK);
  free_.reserve(count);
  for (size_t i = count; i > 0; --i) free_.push_back((i - 1) * bytes_per_frame_);
}

FrameMemory::~FrameMemory() { unmap_memory(base_, bytes()); }

void FrameMemory::move(std::vector<uint64_t>& from, std::vector<uint64_t>& to, size_t count) {
  const auto moved = static_cast<std::ptrdiff_t>(std::min(count, from.size()));
  to.insert(to.end(), from.end() - moved, from.end());
  from.erase(from.end() - moved, from.end());
}

void FrameMemory::take(std::vector<uint64_t>& to, size_t count) {
  const std::lock_guard guard(mutex_);
  move(free_, to, count);
}

void FrameMemory::give_back(std::vector<uint64_t>& from, size_t count) {
  const std::lock_guard guard(mutex_);
  move(from, free_, count);
}

}  // namespace uroce::drivers
