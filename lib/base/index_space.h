#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>

namespace uroce {

/// Address space for an array of up to 2^24 cache-line entries that is reserved at once and filled with
/// memory as indexes come into use, in hugepages where there are any. An entry's address never changes, so
/// readers need no lock and one dependent load. Zero-filled when first seen.
///
/// Index allocation is control path (a lock); freed indexes come back in the order in which they were freed,
/// so that an index rests as long as possible.
class IndexSpace {
 public:
  static constexpr size_t kEntryBytes = 64;

  /// `entries_max` is a power of two, at most 2^24. Index 0 is never handed out. Throws std::bad_alloc when
  /// the address space cannot be reserved.
  explicit IndexSpace(uint32_t entries_max);
  ~IndexSpace();
  IndexSpace(const IndexSpace&) = delete;
  IndexSpace& operator=(const IndexSpace&) = delete;

  /// A free index whose entry is backed by memory; nullopt when all are in use or memory is short.
  std::optional<uint32_t> allocate();
  void free(uint32_t index);

  /// Any index < entries_max, allocated or not, may be *looked at* only below backed(); others must not be
  /// touched.
  [[nodiscard]] std::byte* at(uint32_t index) const { return base_ + size_t{index} * kEntryBytes; }
  /// Entries [0, backed()) have memory. Any thread; grows only.
  [[nodiscard]] uint32_t backed() const;
  [[nodiscard]] uint32_t capacity() const { return entries_max_; }
  [[nodiscard]] bool hugepages() const { return hugepages_; }
  [[nodiscard]] uint32_t in_use() const;

 private:
  bool grow();

  const uint32_t entries_max_;
  std::byte* base_ = nullptr;
  bool hugepages_ = false;
  mutable std::mutex mutex_;
  std::deque<uint32_t> free_;
  uint32_t next_ = 1;
  uint32_t in_use_ = 0;
  uint32_t backed_ = 0;  // accessed with __atomic builtins
};

}  // namespace uroce
