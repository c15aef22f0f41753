#pragma once

#include <cstdint>

#include "mem/rights/access.h"

namespace uroce::mem {

/// What may be done with memory that is mapped on the bus, and by which side; the values are those of the
/// kernel's enum dma_data_direction.
enum class Direction : uint8_t { kBidirectional = 0, kToDevice = 1, kFromDevice = 2 };

/// What is done to memory.
struct Use {
  bool reads = false;
  bool writes = false;

  [[nodiscard]] constexpr bool covers(Use needed) const {
    return (reads || !needed.reads) && (writes || !needed.writes);
  }
};

// The one table of what a right means for the memory below it. Whatever is made over memory (a DMA region, a
// physical, fast or mapped one, a window) and every operation asks it. A peer's atomic operation writes, and
// tells the peer what was there before; a flush does neither.
inline constexpr Access kReadingRights = kLocalRead | kRemoteRead | kRemoteAtomic;
inline constexpr Access kWritingRights = kLocalWrite | kRemoteWrite | kRemoteAtomic;

constexpr Use use_of(Access rights) {
  return {.reads = rights.any(kReadingRights), .writes = rights.any(kWritingRights)};
}

/// What memory that is mapped so may be used for.
constexpr Use use_of(Direction direction) {
  switch (direction) {
    case Direction::kBidirectional:
      return {.reads = true, .writes = true};
    case Direction::kToDevice:
      return {.reads = true};
    case Direction::kFromDevice:
      return {.writes = true};
  }
  return {};
}

/// Whether memory that is mapped so may have a user with such rights. One with none at all may read: that is
/// what every region may locally.
constexpr bool permits(Direction direction, Access rights) {
  const Access needed = rights.any(kReadingRights | kWritingRights) ? rights : kLocalRead;
  return use_of(direction).covers(use_of(needed));
}

/// Whether a region with such rights may have a window with those. What counts is what may be done locally.
constexpr bool permits(Access region, Access window) {
  return use_of(region & (kLocalRead | kLocalWrite)).covers(use_of(window));
}

}  // namespace uroce::mem
