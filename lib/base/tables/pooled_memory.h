#pragma once

#include <array>
#include <cstddef>
#include <memory_resource>
#include <mutex>

namespace uroce {

/// Memory for objects that come and go, such as queues. Pieces of about one size lie in slabs, whose pages
/// the kernel fills many at a time before they are used, so that a piece costs no system call and no page
/// fault of its own; where a size has many, they lie in huge pages, if the kernel has any, for they are used
/// in any order. Pages of pieces of 16 KiB and more come one by one when they are used: of a long queue that
/// may be never. A slab without pieces goes back to the system, but for one of each size. Pieces of more than
/// kPieceBytesMax come from the heap. Any thread; every piece begins with a cache line. Throws bad_alloc.
class PooledMemory final : public std::pmr::memory_resource {
 public:
  static constexpr size_t kAlignment = 64;
  static constexpr size_t kPieceBytesMax = size_t{256} << 10;

  PooledMemory() = default;
  /// All pieces have been given back.
  ~PooledMemory() override;
  PooledMemory(const PooledMemory&) = delete;
  PooledMemory& operator=(const PooledMemory&) = delete;

  /// Slabs that there are.
  [[nodiscard]] size_t slabs() const;

  /// Before and after a fork: a forked child finds whole lists and no lock taken.
  void lock();
  void unlock();

 private:
  struct Slab;
  /// The slabs for pieces up to one size.
  struct Size {
    mutable std::mutex mutex;
    Slab* with_room = nullptr;   // a list
    Slab* empty = nullptr;       // at most one
    std::byte* ahead = nullptr;  // of a huge page, from which the next slabs are cut, up to its end
    size_t slabs = 0;
  };
  // Four sizes to each doubling: a piece is at most a quarter larger than what was asked for.
  static constexpr size_t kStepsPerDoubling = 4;
  static constexpr size_t kSizes = 4 + 10 * kStepsPerDoubling;

  static size_t size_for(size_t bytes);
  static size_t piece_bytes(size_t size);
  static size_t slab_bytes(size_t size);
  static std::byte* map_slab(Size& size, size_t bytes);
  static Slab* make_slab(Size& size, size_t number);
  static void link(Size& size, Slab& slab);
  static void unlink(Size& size, Slab& slab);

  void* do_allocate(size_t bytes, size_t alignment) override;
  void do_deallocate(void* piece, size_t bytes, size_t alignment) override;
  [[nodiscard]] bool do_is_equal(const memory_resource& other) const noexcept override {
    return this == &other;
  }

  std::array<Size, kSizes> sizes_;
};

/// The pool of the process. With AddressSanitizer it is the heap, which knows what was freed and what lies
/// around a piece. A forked child goes on with the pieces that it has inherited.
std::pmr::memory_resource* pooled_memory();

}  // namespace uroce
