#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace uroce {

/// Buckets of a histogram whose width is at most 1/2^kSubBits of their value (HDR): values below
/// 2^(kSubBits+1) have one of their own, and each further power of two has 2^kSubBits.
template <unsigned kSubBits>
struct HdrBuckets {
  /// So many hold all values of `bits` bits.
  static constexpr size_t count(unsigned bits) {
    return static_cast<size_t>(bits - kSubBits + 1) << kSubBits;
  }

  static constexpr size_t bucket_of(uint64_t value) {
    const auto width = static_cast<unsigned>(std::bit_width(value));
    if (width <= kSubBits + 1) return value;
    const unsigned shift = width - kSubBits - 1;
    return (static_cast<size_t>(shift) << kSubBits) + (value >> shift);
  }

  static constexpr uint64_t highest_in(size_t bucket) {
    if (bucket < size_t{2} << kSubBits) return bucket;
    const size_t shift = (bucket >> kSubBits) - 1;
    const uint64_t leading = bucket - (shift << kSubBits);
    return (leading << shift) + ((uint64_t{1} << shift) - 1);
  }
};

}  // namespace uroce
