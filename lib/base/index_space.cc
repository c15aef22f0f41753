#include "base/index_space.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cassert>
#include <new>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

// Memory comes in chunks of one hugepage. A hugepage is first taken and filled at an address of the kernel's
// choice and then moved over the reservation: a shortage of hugepages shows itself there, as an error and not
// as a SIGBUS at first touch, and it leaves no hole in the reservation into which another thread could map.

namespace uroce {
namespace {

constexpr size_t kHugepageBytes = size_t{2} << 20;
constexpr size_t kPageBytes = 4096;
constexpr int kHugepage2Mb = 21 << MAP_HUGE_SHIFT;

size_t chunk_bytes_for(uint32_t entries_max) {
  const size_t bytes = size_t{entries_max} * IndexSpace::kEntryBytes;
  return std::min(kHugepageBytes, (bytes + kPageBytes - 1) / kPageBytes * kPageBytes);
}

/// A hugepage, filled, at an address of the kernel's choice; nullptr when there is none.
void* take_hugepage() {
  void* page = ::mmap(nullptr, kHugepageBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | kHugepage2Mb, -1, 0);
  if (page == MAP_FAILED) return nullptr;
  // A control group may still refuse what mmap has promised. Kernels before 5.14 cannot tell and get ordinary
  // pages.
  if (::madvise(page, kHugepageBytes, MADV_POPULATE_WRITE) == 0) return page;
  ::munmap(page, kHugepageBytes);
  return nullptr;
}

enum class Backing { kNone, kPages, kHugepage };

Backing back(std::byte* chunk, size_t bytes) {
  void* page = bytes == kHugepageBytes ? take_hugepage() : nullptr;
  if (page != nullptr) {
    if (::mremap(page, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, chunk) != MAP_FAILED)
      return Backing::kHugepage;
    ::munmap(page, bytes);
    // Kernels before 5.16 cannot move hugepages, and refuse only after they dropped the target. Unless the
    // hole can be filled, the range may be someone else's by now and is left alone.
    void* hole = ::mmap(chunk, bytes, PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (hole != chunk) return Backing::kNone;
  }
  if (::mprotect(chunk, bytes, PROT_READ | PROT_WRITE) != 0) return Backing::kNone;
  // Advice only: without transparent hugepages it fails and nothing changes.
  if (bytes == kHugepageBytes) (void)::madvise(chunk, bytes, MADV_HUGEPAGE);
  return Backing::kPages;
}

}  // namespace

IndexSpace::IndexSpace(uint32_t entries_max)
    : entries_max_(entries_max), chunk_bytes_(chunk_bytes_for(entries_max)) {
  assert(std::has_single_bit(entries_max));
  assert(entries_max >= 2 && entries_max <= 1u << 24);
  const size_t bytes = std::max(size_t{entries_max} * kEntryBytes, chunk_bytes_);
  reservation_bytes_ = bytes + kHugepageBytes;  // room to align
  reservation_ =
      ::mmap(nullptr, reservation_bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reservation_ == MAP_FAILED) throw std::bad_alloc();
  const auto address = reinterpret_cast<uintptr_t>(reservation_);
  const uintptr_t aligned = (address + kHugepageBytes - 1) & ~uintptr_t{kHugepageBytes - 1};
  base_ = static_cast<std::byte*>(reservation_) + (aligned - address);
}

IndexSpace::~IndexSpace() { ::munmap(reservation_, reservation_bytes_); }

std::optional<uint32_t> IndexSpace::allocate() {
  const std::lock_guard lock(mutex_);
  const bool fresh = next_ < entries_max_ && free_.size() <= kRestingMin && (next_ < backed_ || grow());
  if (!fresh && free_.empty()) return std::nullopt;
  ++in_use_;
  if (fresh) return next_++;
  const uint32_t index = free_.front();
  free_.pop_front();
  return index;
}

void IndexSpace::free(uint32_t index) {
  const std::lock_guard lock(mutex_);
  assert(index > 0 && index < next_);
  assert(in_use_ > 0);
  free_.push_back(index);
  --in_use_;
}

bool IndexSpace::hugepages() const {
  const std::lock_guard lock(mutex_);
  return hugepages_ && backed_ > 0;
}

uint32_t IndexSpace::in_use() const {
  const std::lock_guard lock(mutex_);
  return in_use_;
}

bool IndexSpace::grow() {
  std::byte* chunk = at(backed_);
  const Backing backing = back(chunk, chunk_bytes_);
  if (backing == Backing::kNone) return false;
  hugepages_ = hugepages_ && backing == Backing::kHugepage;
  const auto more = static_cast<uint32_t>(chunk_bytes_ / kEntryBytes);
  // Pairs with the acquire in backed(): who sees the new bound also sees the memory below it.
  __atomic_store_n(&backed_, std::min(backed_ + more, entries_max_), __ATOMIC_RELEASE);
  return true;
}

}  // namespace uroce
