#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/tables/number_block.h"
#include "base/values/identifiers.h"
#include "base/values/random.h"
#include "base/values/time.h"
#include "host/shared_device.h"

namespace uroce::host {

/// Which program has which queue pair numbers of a device. A block is used again only when packets for its
/// last owner can no longer be on their way. The first and the last block are no program's: they hold the
/// service's own numbers, and the one that stands for the members of a group. Not thread-safe.
class NumberBlocks {
 public:
  static constexpr uint32_t kBlocks = 1u << kCommPrefixBits;
  /// How long numbers rest after use: longer than a peer repeats its requests for.
  static constexpr Duration kRest = seconds(4);
  using Owner = uint32_t;  // 0: none

  explicit NumberBlocks(uint64_t seed) : random_(seed), slots_(kBlocks) {}

  /// `count` numbers, rounded up to a power of two; nullopt: no block of that size is free. Where it is
  /// cannot be foretold.
  std::optional<NumberBlock> allocate(uint32_t count, Owner owner, Instant now);
  /// The very block, which the owner had before; false: it is not free, or no block.
  bool claim(NumberBlock block, Owner owner);
  void free(NumberBlock block, Instant now);

  [[nodiscard]] Owner owner_of(QpNumber number) const {
    return slots_[(number.value & QpNumber::kMask) >> kBlockBits].owner;
  }

 private:
  struct Slot {
    Owner owner = 0;
    Instant rests_until{INT64_MIN};
  };

  [[nodiscard]] bool is_free(NumberBlock block, Instant now) const;
  void set(NumberBlock block, Slot slot);

  Random random_;
  std::vector<Slot> slots_;
};

}  // namespace uroce::host
