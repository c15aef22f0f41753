#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "mem/bus/bus_space.h"
#include "mem/rights/access.h"

namespace uroce::mem {

/// The mappings that a region lies in, which cannot be unmapped before release(). Nothing is released at the
/// end of this object: the bus space may be gone by then.
///
/// One thread at a time; also pollers, but for reserve(): no lock, no allocation.
class BusPins {
 public:
  explicit BusPins(BusSpace& bus) : bus_(bus) {}
  BusPins(const BusPins&) = delete;
  BusPins& operator=(const BusPins&) = delete;

  /// Room for so many, before the first. Throws std::bad_alloc.
  void reserve(size_t count) { addresses_.reserve(count); }

  /// Where the bytes are; nullptr and errors as for BusSpace::pin().
  std::byte* add(uint64_t address, uint64_t length, Access access);
  /// Takes over what another has, when there are none here.
  void take_from(BusPins& other);

  /// May everything be read by the device? What is not, gets no right to be read locally.
  [[nodiscard]] bool readable() const { return readable_; }
  /// In the order in which they were added.
  [[nodiscard]] std::span<const uint64_t> addresses() const { return addresses_; }

  /// Pollers that still know a binding need not be waited for: unmapping does that.
  void release();

 private:
  void forget();

  BusSpace& bus_;
  std::vector<uint64_t> addresses_;
  bool readable_ = true;
};

}  // namespace uroce::mem
