#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/identifiers.h"
#include "mem/access.h"

namespace uroce::mem {

/// Kinds of region behind one table entry. More kinds are added here, not beside it.
enum class RegionKind : uint8_t { kNone = 0, kUser = 1 };

/// Why a key did not resolve. The requester answers with a local protection error, the responder with a NAK.
enum class Fault : uint8_t {
  kNone,
  kKey,     // no such key: never made, deregistered, or the low eight bits differ
  kDomain,  // another protection domain
  kAccess,  // a right that was asked for is missing
  kBounds,  // the range is not inside the region, or wraps
};

/// A run of bytes that is contiguous in this process.
struct Piece {
  std::byte* data = nullptr;
  uint64_t length = 0;
};

/// A range of a region that passed all checks. Valid until the end of the turn in which it was resolved.
class Binding {
 public:
  Binding() = default;
  explicit Binding(Fault fault) : fault_(fault) {}
  Binding(std::byte* base, uint64_t length, bool cold) : base_(base), length_(length), cold_(cold) {}

  [[nodiscard]] bool ok() const { return fault_ == Fault::kNone; }
  [[nodiscard]] Fault fault() const { return fault_; }
  [[nodiscard]] uint64_t length() const { return length_; }
  /// The region is too large to stay in cache: placement may go around it.
  [[nodiscard]] bool cold() const { return cold_; }

  /// The contiguous run at `offset` (< length()) of the range, at most up to its end. Regions made of pages
  /// return one run after the other; a user MR has just one.
  [[nodiscard]] Piece piece(uint64_t offset) const { return {base_ + offset, length_ - offset}; }

 private:
  std::byte* base_ = nullptr;
  uint64_t length_ = 0;
  bool cold_ = false;
  Fault fault_ = Fault::kNone;
};

}  // namespace uroce::mem
