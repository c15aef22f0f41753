#pragma once

#include <cstdint>

#include "base/values/result.h"

namespace uroce::mem {

/// Access rights; the bits are those of `enum ibv_access_flags`, so the verbs face passes them through.
class Access {
 public:
  constexpr Access() = default;
  constexpr explicit Access(uint32_t bits) : bits_(bits) {}

  [[nodiscard]] constexpr uint32_t bits() const { return bits_; }
  /// True when *every* right in `needed` is granted.
  [[nodiscard]] constexpr bool covers(Access needed) const { return (needed.bits_ & ~bits_) == 0; }
  [[nodiscard]] constexpr bool any(Access of) const { return (bits_ & of.bits_) != 0; }
  constexpr Access operator|(Access other) const { return Access(bits_ | other.bits_); }
  constexpr Access operator&(Access other) const { return Access(bits_ & other.bits_); }
  constexpr bool operator==(const Access&) const = default;

 private:
  uint32_t bits_ = 0;
};

/// Ours, not of the interface: every region may be read locally, but no memory window.
inline constexpr Access kLocalRead{1u << 31};
inline constexpr Access kLocalWrite{1u << 0};
inline constexpr Access kRemoteWrite{1u << 1};
inline constexpr Access kRemoteRead{1u << 2};
inline constexpr Access kRemoteAtomic{1u << 3};
inline constexpr Access kWindowBind{1u << 4};
inline constexpr Access kZeroBased{1u << 5};
inline constexpr Access kOnDemand{1u << 6};
inline constexpr Access kHugeTlb{1u << 7};
inline constexpr Access kFlushGlobal{1u << 8};
inline constexpr Access kFlushPersistent{1u << 9};
/// IBV_ACCESS_OPTIONAL_RANGE: bits that an implementation may ignore (relaxed ordering among them).
inline constexpr Access kOptionalRange{0x3FFu << 20};

/// Rights to write.
inline constexpr Access kWriting = kLocalWrite | kRemoteWrite | kRemoteAtomic;
/// All that a lookup is ever asked for.
inline constexpr Access kChecked = kWriting | kRemoteRead | kFlushGlobal | kFlushPersistent;
/// What the entry of a region keeps: also what decides about windows over it.
inline constexpr Access kKept = kChecked | kWindowBind | kZeroBased;

/// What a registration may ask for. EINVAL: unknown bits, or remote write or atomic access without local
/// write. EOPNOTSUPP: known to the interface, but no region of this stack has them.
Status check_rights(Access access);

}  // namespace uroce::mem
