// From the heap each of a program's first queue pairs would cost page faults, and large ones an mmap and
// munmap each time. Cost: a piece is up to a quarter larger than what lies in it, and each size in use keeps
// a slab, of 64 KiB for small ones. Sizes with a megabyte of slabs are cut from huge pages. With
// AddressSanitizer all of it is the heap's, which then knows what was freed.
#include "base/tables/pooled_memory.h"

#include <pthread.h>
#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <new>
#include <utility>

#include "base/tables/memory_calls.h"
#include "base/values/contract.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

// A slab is aligned to its own size, so a piece's address leads to it. Pieces are cut off one after the
// other; those that came back are a list through their first bytes, and go first, the latest before the
// others, because it is in the cache.

namespace uroce {
namespace {

constexpr size_t kSlabBytesMin = size_t{64} << 10;
constexpr size_t kHugePageBytes = size_t{2} << 20;
constexpr size_t kPlainBytesMax = size_t{1} << 20;  // in slabs of one size, before there are huge pages
constexpr size_t kPiecesMin = 7;                    // in a slab ...
constexpr size_t kUnfilledPiecesMin = 31;  // ... whose first page is there although no piece may be used
constexpr size_t kFilledAhead = size_t{64} << 10;  // by one call
constexpr size_t kFilledMax = size_t{16} << 10;  // of a piece; the pages of longer ones come as they are used
constexpr size_t kSpreadFrom = 2048;             // pieces of at least that
constexpr size_t kFineSizes = 4;                 // in steps of a cache line
constexpr size_t kFineBytesMax = kFineSizes * PooledMemory::kAlignment;

size_t round_up(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }

/// At an address that is a multiple of `bytes`, a power of two; nullptr: there is none. The upper end of what
/// the kernel gives is kept: it borders on the slab before, so that the two are one mapping for the kernel.
std::byte* map_aligned(size_t bytes) {
  std::byte* const wide = map_memory(nullptr, 2 * bytes, PROT_READ | PROT_WRITE, 0);
  if (wide == nullptr) return nullptr;
  const size_t above = reinterpret_cast<uintptr_t>(wide) % bytes;
  std::byte* const kept = wide + bytes - above;
  if (kept != wide) unmap_memory(wide, static_cast<size_t>(kept - wide));
  if (above != 0) unmap_memory(kept + bytes, above);
  return kept;
}

/// Has the kernel fill a slab's pages up to `needed`, or as many as are filled at a time; of the first
/// `filled` bytes they are there. Where it cannot (before 5.14), they come when they are first used.
size_t fill(std::byte* slab, size_t filled, size_t needed, size_t slab_bytes) {
  const size_t end = std::min(slab_bytes, std::max(round_up(needed, kPageBytes), filled + kFilledAhead));
  (void)advise_memory(slab + filled, end - filled, MADV_POPULATE_WRITE);
  return end;
}

struct FreePiece {
  FreePiece* next;
};

#if defined(__has_feature)
#define UROCE_HAS_FEATURE(feature) __has_feature(feature)
#else
#define UROCE_HAS_FEATURE(feature) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || UROCE_HAS_FEATURE(address_sanitizer)
constexpr bool kAddressSanitizer = true;
#else
constexpr bool kAddressSanitizer = false;
#endif

}  // namespace

struct alignas(PooledMemory::kAlignment) PooledMemory::Slab {
  Slab* previous = nullptr;  // among those with room
  Slab* next = nullptr;
  FreePiece* free = nullptr;
  size_t used = 0;    // pieces
  size_t cut = 0;     // bytes from the slab's beginning
  size_t filled = 0;  // bytes, likewise, whose pages are there, or need not be

  [[nodiscard]] bool has_room(size_t piece_bytes, size_t slab_bytes) const {
    return free != nullptr || cut + piece_bytes <= slab_bytes;
  }
  /// There is room.
  void* take(size_t piece_bytes, size_t slab_bytes) {
    UROCE_ASSERT(has_room(piece_bytes, slab_bytes));
    ++used;
    if (free != nullptr) return std::exchange(free, free->next);
    std::byte* const piece = reinterpret_cast<std::byte*>(this) + cut;
    cut += piece_bytes;
    if (cut > filled) filled = fill(reinterpret_cast<std::byte*>(this), filled, cut, slab_bytes);
    return piece;
  }
  void give_back(void* piece) {
    UROCE_ASSERT(used > 0);
    --used;
    free = new (piece) FreePiece{free};
  }
};

size_t PooledMemory::size_for(size_t bytes) {
  if (bytes <= kFineBytesMax) return bytes <= kAlignment ? 0 : (bytes - 1) / kAlignment;
  const auto doubling = static_cast<size_t>(std::bit_width(bytes - 1)) - 1;
  const size_t step = (bytes - 1) >> (doubling - 2) & (kStepsPerDoubling - 1);
  return kFineSizes + (doubling - 8) * kStepsPerDoubling + step;
}

/// From one piece to the next. Large ones are a cache line longer than they need be, or their first lines,
/// which are used most, would compete for the same sets of the cache.
size_t PooledMemory::piece_bytes(size_t size) {
  if (size < kFineSizes) return (size + 1) * kAlignment;
  const size_t doubling = 8 + (size - kFineSizes) / kStepsPerDoubling;
  const size_t step = (size - kFineSizes) % kStepsPerDoubling;
  const size_t bytes = (kStepsPerDoubling + step + 1) << (doubling - 2);
  return bytes + (bytes >= kSpreadFrom ? kAlignment : 0);
}

size_t PooledMemory::slab_bytes(size_t size) {
  const size_t pieces = piece_bytes(size) < kFilledMax ? kPiecesMin : kUnfilledPiecesMin;
  return std::max(kSlabBytesMin, std::bit_ceil(pieces * piece_bytes(size)));
}

/// A slab of a size that has many is a part of what may be a huge page, with those that come after it.
std::byte* PooledMemory::map_slab(Size& size, size_t bytes) {
  if (size.ahead == nullptr) {
    if (bytes >= kHugePageBytes || size.slabs * bytes < kPlainBytesMax) return map_aligned(bytes);
    size.ahead = map_aligned(kHugePageBytes);
    if (size.ahead == nullptr) return nullptr;
    (void)advise_memory(size.ahead, kHugePageBytes, MADV_HUGEPAGE);  // without any, they are plain pages
  }
  std::byte* const slab = size.ahead;
  size.ahead += bytes;
  if (reinterpret_cast<uintptr_t>(size.ahead) % kHugePageBytes == 0) size.ahead = nullptr;
  return slab;
}

PooledMemory::Slab* PooledMemory::make_slab(Size& size, size_t number) {
  static_assert(sizeof(Slab) == kAlignment);
  const size_t bytes = slab_bytes(number);
  const bool fills = piece_bytes(number) < kFilledMax;
  std::byte* const memory = fills ? map_slab(size, bytes) : map_aligned(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  if (!fills) (void)advise_memory(memory, bytes, MADV_NOHUGEPAGE);  // one touch would fill all of it
  const size_t filled = fills ? fill(memory, 0, sizeof(Slab), bytes) : bytes;
  return new (memory) Slab{.cut = sizeof(Slab), .filled = filled};
}

PooledMemory::~PooledMemory() {
  for (size_t size = 0; size < kSizes; ++size) {
    UROCE_ASSERT(sizes_[size].with_room == nullptr && sizes_[size].slabs == (sizes_[size].empty != nullptr));
    if (sizes_[size].empty != nullptr) unmap_memory(sizes_[size].empty, slab_bytes(size));
    std::byte* const ahead = sizes_[size].ahead;
    if (ahead != nullptr)
      unmap_memory(ahead, kHugePageBytes - reinterpret_cast<uintptr_t>(ahead) % kHugePageBytes);
  }
}

size_t PooledMemory::slabs() const {
  size_t count = 0;
  for (const Size& size : sizes_) {
    const std::lock_guard guard(size.mutex);
    count += size.slabs;
  }
  return count;
}

void PooledMemory::lock() {
  for (Size& size : sizes_) size.mutex.lock();
}

void PooledMemory::unlock() {
  for (Size& size : sizes_) size.mutex.unlock();
}

void PooledMemory::link(Size& size, Slab& slab) {
  slab.previous = nullptr;
  slab.next = size.with_room;
  if (slab.next != nullptr) slab.next->previous = &slab;
  size.with_room = &slab;
}

void PooledMemory::unlink(Size& size, Slab& slab) {
  (slab.previous != nullptr ? slab.previous->next : size.with_room) = slab.next;
  if (slab.next != nullptr) slab.next->previous = slab.previous;
}

void* PooledMemory::do_allocate(size_t bytes, size_t alignment) {
  UROCE_ASSERT(alignment <= kAlignment);
  if (bytes > kPieceBytesMax) return std::pmr::new_delete_resource()->allocate(bytes, alignment);
  const size_t number = size_for(bytes);
  Size& size = sizes_[number];
  const std::lock_guard guard(size.mutex);
  if (size.with_room == nullptr) {
    const bool is_new = size.empty == nullptr;
    link(size, is_new ? *make_slab(size, number) : *std::exchange(size.empty, nullptr));
    if (is_new) ++size.slabs;
  }
  Slab& slab = *size.with_room;
  void* const piece = slab.take(piece_bytes(number), slab_bytes(number));
  if (!slab.has_room(piece_bytes(number), slab_bytes(number))) unlink(size, slab);
  return piece;
}

void PooledMemory::do_deallocate(void* piece, size_t bytes, size_t alignment) {
  if (bytes > kPieceBytesMax) return std::pmr::new_delete_resource()->deallocate(piece, bytes, alignment);
  const size_t number = size_for(bytes);
  const size_t whole = slab_bytes(number);
  Size& size = sizes_[number];
  auto& slab = *reinterpret_cast<Slab*>(reinterpret_cast<uintptr_t>(piece) & ~(whole - 1));
  Slab* unused = nullptr;
  {
    const std::lock_guard guard(size.mutex);
    if (!slab.has_room(piece_bytes(number), whole)) link(size, slab);
    slab.give_back(piece);
    if (slab.used > 0) return;
    unlink(size, slab);
    if (size.empty == nullptr) {
      size.empty = &slab;
      return;
    }
    unused = &slab;
    --size.slabs;
  }
  unmap_memory(unused, whole);
}

namespace {

/// Never destroyed: threads may go on until the very end.
PooledMemory& pool_of_process() {
  static PooledMemory& only = *new PooledMemory;
  // No lock is taken while one of these is held, so the order among the handlers of a fork does not matter.
  static const int registered =
      pthread_atfork([] { pool_of_process().lock(); }, [] { pool_of_process().unlock(); },
                     [] { pool_of_process().unlock(); });
  (void)registered;
  return only;
}

// From the load on: no thread makes it while another forks.
[[maybe_unused]] const bool made_at_load = kAddressSanitizer || (pool_of_process(), true);

}  // namespace

std::pmr::memory_resource* pooled_memory() {
  if constexpr (kAddressSanitizer) return std::pmr::new_delete_resource();
  return &pool_of_process();
}

}  // namespace uroce
