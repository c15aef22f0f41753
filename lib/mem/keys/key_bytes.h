#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "base/values/identifiers.h"
#include "base/values/keyed_hash.h"

namespace uroce::mem {

/// The low eight bits that the stack gives a key. Each index has an order of all 256 of its own, which no
/// stranger can foretell without the hash key: what comes next is not told by what came before, and no byte
/// returns before all others were there.
class KeyBytes {
 public:
  explicit constexpr KeyBytes(const HashKey& key) : key_(key) {}

  [[nodiscard]] constexpr MemoryKey first(uint32_t index) const {
    return MemoryKey::make(index, forward(rounds_of(index), 0));
  }
  /// The one behind it, of the same index.
  [[nodiscard]] constexpr MemoryKey after(MemoryKey key) const {
    const Rounds rounds = rounds_of(key.index());
    return MemoryKey::make(key.index(),
                           forward(rounds, static_cast<uint8_t>(backward(rounds, key.key()) + 1)));
  }

 private:
  // A Feistel network of two halves of four bits. The function of a round has 16 values of four bits, which
  // are one word.
  static constexpr int kRounds = 6;
  using Rounds = std::array<uint64_t, kRounds>;

  [[nodiscard]] constexpr Rounds rounds_of(uint32_t index) const {
    Rounds rounds{};
    for (uint64_t i = 0; i < kRounds; ++i) rounds[i] = keyed_hash(key_, index, i);
    return rounds;
  }
  static constexpr uint32_t value(uint64_t round, uint32_t of) {
    return static_cast<uint32_t>(round >> (4 * of)) & 0xF;
  }
  static constexpr uint8_t forward(const Rounds& rounds, uint8_t position) {
    uint32_t left = position >> 4;
    uint32_t right = position & 0xFU;
    for (const uint64_t round : rounds) {
      const uint32_t next = left ^ value(round, right);
      left = right;
      right = next;
    }
    return static_cast<uint8_t>(left << 4 | right);
  }
  static constexpr uint8_t backward(const Rounds& rounds, uint8_t byte) {
    uint32_t left = byte >> 4;
    uint32_t right = byte & 0xFU;
    for (auto round = rounds.rbegin(); round != rounds.rend(); ++round) {
      const uint32_t before = right ^ value(*round, left);
      right = left;
      left = before;
    }
    return static_cast<uint8_t>(left << 4 | right);
  }

  HashKey key_;
};

/// Which low eight bits an index has had while the consumer chose them: fast registration and windows of
/// type 2. Until all 256 were there the stack gives none of them again.
struct KeyHistory {
  std::array<uint64_t, 4> words{};

  static constexpr KeyHistory all() { return {{UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX}}; }
  constexpr void add(uint8_t byte) { words[byte / 64] |= uint64_t{1} << (byte % 64); }
  [[nodiscard]] constexpr bool has(uint8_t byte) const { return (words[byte / 64] >> (byte % 64) & 1) != 0; }
  [[nodiscard]] constexpr bool full() const { return words == all().words; }
};

}  // namespace uroce::mem
