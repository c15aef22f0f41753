// Decision: without hugepages (memory.hugepages = false) the kernel is still asked for transparent ones,
// which are taken from no other program. The key covers tables of the stack and memory made for programs.
#include "base/tables/index_space.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <new>

#include "base/tables/memory_calls.h"
#include "base/values/contract.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

// Memory comes in chunks of one hugepage. A hugepage is first taken and filled at an address of the kernel's
// choice and then moved over the reservation: a shortage of hugepages shows itself there, as an error and not
// as a SIGBUS at first touch, and it leaves no hole in the reservation into which another thread could map.

namespace uroce {
namespace {

constexpr size_t kHugepageBytes = size_t{2} << 20;
constexpr int kHugepage2Mb = 21 << MAP_HUGE_SHIFT;

size_t chunk_bytes_for(uint32_t entries_max) {
  const size_t bytes = size_t{entries_max} * IndexSpace::kEntryBytes;
  return std::min(kHugepageBytes, (bytes + kPageBytes - 1) / kPageBytes * kPageBytes);
}

/// A hugepage, filled, at an address of the kernel's choice; nullptr when there is none.
std::byte* take_hugepage() {
  std::byte* const page =
      map_memory(nullptr, kHugepageBytes, PROT_READ | PROT_WRITE, MAP_HUGETLB | kHugepage2Mb);
  if (page == nullptr) return nullptr;
  // A control group may still refuse what mmap has promised. Kernels before 5.14 cannot tell and get ordinary
  // pages.
  if (advise_memory(page, kHugepageBytes, MADV_POPULATE_WRITE)) return page;
  unmap_memory(page, kHugepageBytes);
  return nullptr;
}

enum class Backing { kNone, kPages, kHugepage };

Backing back(std::byte* chunk, size_t bytes, bool huge) {
  std::byte* const page = huge && bytes == kHugepageBytes ? take_hugepage() : nullptr;
  if (page != nullptr) {
    if (move_memory(page, bytes, chunk)) return Backing::kHugepage;
    unmap_memory(page, bytes);
    // Kernels before 5.16 cannot move hugepages, and refuse only after they dropped the target. Unless the
    // hole can be filled, the range may be someone else's by now and is left alone.
    if (map_memory(chunk, bytes, PROT_NONE, MAP_NORESERVE | MAP_FIXED_NOREPLACE) == nullptr)
      return Backing::kNone;
  }
  if (::mprotect(chunk, bytes, PROT_READ | PROT_WRITE) != 0) return Backing::kNone;
  // Advice only: without transparent hugepages it fails and nothing changes.
  if (bytes == kHugepageBytes) (void)advise_memory(chunk, bytes, MADV_HUGEPAGE);
  return Backing::kPages;
}

}  // namespace

IndexSpace::IndexSpace(uint32_t entries_max, Pages pages, const IndexOrder::Options& order)
    : entries_max_(entries_max),
      chunk_bytes_(chunk_bytes_for(entries_max)),
      hugepages_wanted_(pages == Pages::kHuge),
      order_(order) {
  static_assert(kChunkEntries * kEntryBytes == kHugepageBytes);
  UROCE_ASSERT(std::has_single_bit(entries_max));
  UROCE_ASSERT(entries_max >= 2 && entries_max <= 1u << 24);
  const size_t bytes = std::max(size_t{entries_max} * kEntryBytes, chunk_bytes_);
  reservation_bytes_ = bytes + kHugepageBytes;  // room to align
  reservation_ = map_memory(nullptr, reservation_bytes_, PROT_NONE, MAP_NORESERVE);
  if (reservation_ == nullptr) throw std::bad_alloc();
  const auto address = reinterpret_cast<uintptr_t>(reservation_);
  const uintptr_t aligned = (address + kHugepageBytes - 1) & ~uintptr_t{kHugepageBytes - 1};
  base_ = reservation_ + (aligned - address);
}

IndexSpace::~IndexSpace() { unmap_memory(reservation_, reservation_bytes_); }

std::optional<uint32_t> IndexSpace::allocate(size_t pool) {
  const std::lock_guard lock(mutex_);
  if (backed_ < entries_max_ && order_.wants_more(pool))
    (void)grow();  // if not, some may be free all the same
  const auto index = order_.take(pool);
  if (index) ++in_use_;
  return index;
}

void IndexSpace::free(uint32_t index, size_t pool) {
  const std::lock_guard lock(mutex_);
  UROCE_ASSERT(index > 0 && index < backed_);
  UROCE_ASSERT(in_use_ > 0);
  order_.give_back(index, pool);
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
  const Backing backing = back(chunk, chunk_bytes_, hugepages_wanted_);
  if (backing == Backing::kNone) return false;
  hugepages_ = hugepages_ && backing == Backing::kHugepage;
  const auto more = static_cast<uint32_t>(chunk_bytes_ / kEntryBytes);
  const uint32_t bound = std::min(backed_ + more, entries_max_);
  order_.add(std::max(backed_, 1u), bound);
  // Pairs with the acquire in backed(): a thread that sees the new bound also sees the memory below it.
  __atomic_store_n(&backed_, bound, __ATOMIC_RELEASE);
  return true;
}

}  // namespace uroce
