#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

namespace uroce::mem {

/// Divides 2 MB into blocks of powers of two, each aligned to its own size; neighbours that are free become
/// one again. Offsets only: it touches no memory of the chunk. Takes no memory after it was made. Not
/// thread-safe.
class BuddyBlocks {
 public:
  static constexpr uint32_t kBytes = 2u << 20;
  static constexpr uint32_t kBlockMin = 64;
  static constexpr uint32_t kBlockMax = kBytes / 2;

  BuddyBlocks();

  /// Offset of a block of at least so many bytes (1 to kBlockMax); nullopt: none is left.
  std::optional<uint32_t> allocate(uint32_t bytes);
  /// False: no block in use begins there.
  bool free(uint32_t offset);

  [[nodiscard]] bool unused() const { return free_.back().count != 0; }

 private:
  static constexpr uint32_t kOrders = 16;  // 64 B to 2 MB
  static_assert(kBlockMin << (kOrders - 1) == kBytes);

  /// The free blocks of one size, a bit each.
  struct FreeBlocks {
    std::vector<uint64_t> words;
    uint32_t count = 0;
  };
  void put(uint32_t order, uint32_t offset);
  bool take(uint32_t order, uint32_t offset);
  [[nodiscard]] uint32_t first(uint32_t order) const;

  std::array<FreeBlocks, kOrders> free_;
  std::vector<uint8_t> orders_;  // of the block in use that begins there, plus one; 0: none
};

}  // namespace uroce::mem
