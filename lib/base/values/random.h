#pragma once

#include <cstdint>

namespace uroce {

/// A small seeded generator (SplitMix64). Not for secrets: it repeats a run exactly from its seed.
/// Below `engine` randomness is always an argument.
class Random {
 public:
  constexpr explicit Random(uint64_t seed) : state_(seed) {}

  constexpr uint64_t next() {
    state_ += 0x9E3779B97F4A7C15u;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }

  /// Uniform in 0 .. bound-1 (bound > 0); the bias is below bound / 2^64.
  constexpr uint64_t below(uint64_t bound) { return next() % bound; }

  /// True with probability `numerator / denominator`.
  constexpr bool chance(uint64_t numerator, uint64_t denominator) { return below(denominator) < numerator; }

 private:
  uint64_t state_;
};

}  // namespace uroce
