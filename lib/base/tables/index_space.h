#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>

#include "base/tables/index_order.h"

namespace uroce {

/// Address space for an array of up to 2^24 cache-line entries that is reserved at once and filled with
/// memory as indexes come into use, in hugepages where there are any. An entry's address never changes, so
/// readers need no lock and one dependent load. Zero-filled when first seen.
///
/// Index allocation is control path (a lock); IndexOrder says in which order.
class IndexSpace {
 public:
  static constexpr size_t kEntryBytes = 64;
  /// A hugepage of them: what memory comes in.
  static constexpr uint32_t kChunkEntries = (2u << 20) / kEntryBytes;

  /// kHuge: the machine's free hugepages as long as there are any, then ordinary ones.
  enum class Pages : uint8_t { kOrdinary, kHuge };

  /// `entries_max` is a power of two, 2 to 2^24. Index 0 is never handed out. Throws std::bad_alloc when the
  /// address space cannot be reserved.
  explicit IndexSpace(uint32_t entries_max, Pages pages = Pages::kHuge,
                      const IndexOrder::Options& order = {});
  ~IndexSpace();
  IndexSpace(const IndexSpace&) = delete;
  IndexSpace& operator=(const IndexSpace&) = delete;

  /// A free index whose entry is backed by memory; nullopt when all are in use or memory is short.
  std::optional<uint32_t> allocate(size_t pool = 0);
  /// `index` is one that allocate() returned. Its entry keeps its bytes.
  void free(uint32_t index, size_t pool = 0);

  /// Only entries below backed() may be touched, allocated or not.
  [[nodiscard]] std::byte* at(uint32_t index) const { return base_ + size_t{index} * kEntryBytes; }
  /// Entries [0, backed()) have memory. Any thread; grows only.
  [[nodiscard]] uint32_t backed() const {
    return __atomic_load_n(&backed_, __ATOMIC_ACQUIRE);  // pairs with the release in grow()
  }
  [[nodiscard]] uint32_t capacity() const { return entries_max_; }
  /// True while every entry that has memory has it in hugepages.
  [[nodiscard]] bool hugepages() const;
  [[nodiscard]] uint32_t in_use() const;

 private:
  bool grow();

  // What readers look at changes only when the array grows, so it has a cache line of its own.
  alignas(64) std::byte* base_ = nullptr;
  uint32_t backed_ = 0;  // written under the mutex, read by anyone
  const uint32_t entries_max_;

  alignas(64) mutable std::mutex mutex_;
  const size_t chunk_bytes_;
  const bool hugepages_wanted_;
  std::byte* reservation_ = nullptr;
  size_t reservation_bytes_ = 0;
  IndexOrder order_;
  uint32_t in_use_ = 0;
  bool hugepages_ = true;
};

}  // namespace uroce
