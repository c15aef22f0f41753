#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "mem/access.h"
#include "mem/bus_space.h"

namespace uroce::mem {

/// The mappings that a region lies in, which cannot be unmapped meanwhile. Control path; one thread at a
/// time.
class BusPins {
 public:
  explicit BusPins(BusSpace& bus) : bus_(bus) {}
  ~BusPins() { release(); }
  BusPins(const BusPins&) = delete;
  BusPins& operator=(const BusPins&) = delete;

  /// Room for so many. Throws std::bad_alloc.
  void reserve(size_t count) { addresses_.reserve(count); }

  /// Where the bytes are. nullptr: they do not lie in one mapping, or its direction forbids what `access`
  /// permits: writing, reading by a peer, or, when it permits neither, reading.
  std::byte* add(uint64_t address, uint64_t length, Access access);
  /// May everything be read by the device? What is not, gets no right to be read locally.
  [[nodiscard]] bool readable() const { return readable_; }

  /// In the order in which they were added.
  [[nodiscard]] std::span<const uint64_t> addresses() const { return addresses_; }

  /// Pollers that still know a binding need not be waited for: unmapping does that.
  void release();
  /// Without telling the bus space, which may be gone.
  void forget() { addresses_.clear(); }

 private:
  BusSpace& bus_;
  std::vector<uint64_t> addresses_;
  bool readable_ = true;
};

}  // namespace uroce::mem
