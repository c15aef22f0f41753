#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/values/identifiers.h"
#include "mem/bus/bus_space.h"
#include "mem/rights/access.h"
#include "mem/rights/region.h"

namespace uroce::mem {

/// A run of bytes of the test's memory.
struct Stretch {
  size_t offset = 0;
  size_t length = 0;
};

/// Memory mapped on the bus, as the reference remembers it.
struct ReferenceMapping {
  uint64_t bus = 0;
  Stretch memory;
  Direction direction = Direction::kBidirectional;
  bool live = false;

  [[nodiscard]] bool readable() const { return direction != Direction::kFromDevice; }
  [[nodiscard]] bool writable() const { return direction != Direction::kToDevice; }
  /// Whether a region with these rights may lie in it.
  [[nodiscard]] bool admits(Access access) const;
};

/// A region with nothing clever about it: its bytes are a list of stretches.
struct ReferenceRegion {
  RegionKind kind = RegionKind::kNone;
  bool live = false;
  bool bound = false;
  MemoryKey key;
  DomainId domain;
  Access access;  // as it was asked for, or what an unbound one answers for
  bool readable = true;
  uint64_t iova = 0;
  std::vector<Stretch> bytes;
  std::vector<size_t> mappings;  // that it lies in
  QpIdentity queue_pair{};       // a window's; 0: of any
  std::optional<size_t> parent;  // a bound window's

  [[nodiscard]] uint64_t length() const;
};

/// What a lookup must say.
struct Answer {
  Fault fault = Fault::kNone;
  std::vector<Stretch> bytes;  // without fault: where they are, neighbours joined
};

/// The key table as its documentation describes it, slow and simple.
class Reference {
 public:
  std::vector<ReferenceMapping> mappings;
  std::vector<ReferenceRegion> regions;

  /// A window is bound over it.
  [[nodiscard]] bool covered(size_t region) const;
  /// A region lies in it.
  [[nodiscard]] bool pinned(size_t mapping) const;
  /// A bus address of live mappings: which; `mappings.size()` when none. [address, address + length) lies in
  /// it.
  [[nodiscard]] size_t find_mapping(uint64_t address, uint64_t length) const;
  [[nodiscard]] Answer resolve(MemoryKey key, const KeyUser& user, uint64_t address, uint64_t length,
                               Access needed) const;

 private:
  [[nodiscard]] Answer resolve_on_bus(uint64_t address, uint64_t length, Access needed) const;
};

/// [skip, skip + length) of all that the stretches are.
std::vector<Stretch> part_of(const std::vector<Stretch>& bytes, uint64_t skip, uint64_t length);

/// Adds a stretch; one that goes on where the last ended joins it.
void append(std::vector<Stretch>& bytes, Stretch stretch);

}  // namespace uroce::mem
