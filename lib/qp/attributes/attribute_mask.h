#pragma once

#include <cstdint>

namespace uroce::qp {

/// A set of attributes of a queue pair; the bits are those of `enum ibv_qp_attr_mask`, so the verbs face
/// passes them through.
class AttributeMask {
 public:
  constexpr AttributeMask() = default;
  constexpr explicit AttributeMask(uint32_t bits) : bits_(bits) {}

  [[nodiscard]] constexpr uint32_t bits() const { return bits_; }
  [[nodiscard]] constexpr bool empty() const { return bits_ == 0; }
  /// True when *every* attribute of `needed` is in the set.
  [[nodiscard]] constexpr bool covers(AttributeMask needed) const { return (needed.bits_ & ~bits_) == 0; }
  [[nodiscard]] constexpr bool any(AttributeMask of) const { return (bits_ & of.bits_) != 0; }
  [[nodiscard]] constexpr AttributeMask without(AttributeMask other) const {
    return AttributeMask(bits_ & ~other.bits_);
  }
  constexpr AttributeMask operator|(AttributeMask other) const { return AttributeMask(bits_ | other.bits_); }
  constexpr AttributeMask& operator|=(AttributeMask other) { return *this = *this | other; }
  constexpr bool operator==(const AttributeMask&) const = default;

 private:
  uint32_t bits_ = 0;
};

inline constexpr AttributeMask kMaskState{1u << 0};
inline constexpr AttributeMask kMaskCurrentState{1u << 1};
inline constexpr AttributeMask kMaskEnSqdAsyncNotify{1u << 2};
inline constexpr AttributeMask kMaskAccessFlags{1u << 3};
inline constexpr AttributeMask kMaskPkeyIndex{1u << 4};
inline constexpr AttributeMask kMaskPort{1u << 5};
inline constexpr AttributeMask kMaskQkey{1u << 6};
inline constexpr AttributeMask kMaskAv{1u << 7};
inline constexpr AttributeMask kMaskPathMtu{1u << 8};
inline constexpr AttributeMask kMaskTimeout{1u << 9};
inline constexpr AttributeMask kMaskRetryCount{1u << 10};
inline constexpr AttributeMask kMaskRnrRetry{1u << 11};
inline constexpr AttributeMask kMaskRqPsn{1u << 12};
inline constexpr AttributeMask kMaskMaxRdAtomic{1u << 13};
inline constexpr AttributeMask kMaskAltPath{1u << 14};
inline constexpr AttributeMask kMaskMinRnrTimer{1u << 15};
inline constexpr AttributeMask kMaskSqPsn{1u << 16};
inline constexpr AttributeMask kMaskMaxDestRdAtomic{1u << 17};
inline constexpr AttributeMask kMaskPathMigState{1u << 18};
inline constexpr AttributeMask kMaskCap{1u << 19};
inline constexpr AttributeMask kMaskDestQpn{1u << 20};
inline constexpr AttributeMask kMaskRateLimit{1u << 25};

}  // namespace uroce::qp
