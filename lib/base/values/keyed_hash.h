#pragma once

#include <array>
#include <bit>
#include <cstdint>

namespace uroce {

/// 128 secret bits. Below `engine` they are an argument; tests pass what they like.
struct HashKey {
  uint64_t low = 0;
  uint64_t high = 0;
};

namespace keyed_hash_parts {

struct State {
  std::array<uint64_t, 4> v;

  constexpr void round() {
    v[0] += v[1];
    v[1] = std::rotl(v[1], 13) ^ v[0];
    v[0] = std::rotl(v[0], 32);
    v[2] += v[3];
    v[3] = std::rotl(v[3], 16) ^ v[2];
    v[0] += v[3];
    v[3] = std::rotl(v[3], 21) ^ v[0];
    v[2] += v[1];
    v[1] = std::rotl(v[1], 17) ^ v[2];
    v[2] = std::rotl(v[2], 32);
  }
  constexpr void absorb(uint64_t word) {
    v[3] ^= word;
    round();
    round();
    v[0] ^= word;
  }
};

}  // namespace keyed_hash_parts

/// SipHash-2-4 of the 16 bytes of two little-endian words: without the key one cannot tell the
/// values from random ones, however many it has seen.
constexpr uint64_t keyed_hash(const HashKey& key, uint64_t first, uint64_t second) {
  keyed_hash_parts::State state{{key.low ^ 0x736F6D6570736575, key.high ^ 0x646F72616E646F6D,
                                 key.low ^ 0x6C7967656E657261, key.high ^ 0x7465646279746573}};
  state.absorb(first);
  state.absorb(second);
  state.absorb(uint64_t{16} << 56);
  state.v[2] ^= 0xFF;
  for (int i = 0; i < 4; ++i) state.round();
  return state.v[0] ^ state.v[1] ^ state.v[2] ^ state.v[3];
}

/// A key for one purpose, which tells nothing about those for others.
constexpr HashKey derive(const HashKey& key, uint64_t purpose) {
  return {keyed_hash(key, purpose, UINT64_MAX - 1), keyed_hash(key, purpose, UINT64_MAX)};
}

}  // namespace uroce
