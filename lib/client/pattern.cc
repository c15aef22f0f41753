#include "client/pattern.h"

#include <algorithm>
#include <cstring>

namespace uroce::client {
namespace {

// SplitMix64: every seed gives a sequence of its own, eight bytes at a time.
class Sequence {
 public:
  explicit Sequence(uint64_t seed) : state_(seed) {}
  uint64_t next() {
    state_ += 0x9E3779B97F4A7C15u;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }

 private:
  uint64_t state_;
};

}  // namespace

void fill_pattern(std::span<std::byte> bytes, uint64_t seed) {
  Sequence sequence(seed);
  for (size_t at = 0; at < bytes.size(); at += sizeof(uint64_t)) {
    const uint64_t word = sequence.next();
    std::memcpy(bytes.data() + at, &word, std::min(sizeof(word), bytes.size() - at));
  }
}

std::optional<size_t> first_difference(std::span<const std::byte> bytes, uint64_t seed) {
  Sequence sequence(seed);
  for (size_t at = 0; at < bytes.size(); at += sizeof(uint64_t)) {
    const uint64_t word = sequence.next();
    const size_t length = std::min(sizeof(word), bytes.size() - at);
    if (std::memcmp(bytes.data() + at, &word, length) == 0) continue;
    const auto* expected = reinterpret_cast<const std::byte*>(&word);
    for (size_t i = 0; i < length; ++i) {
      if (bytes[at + i] != expected[i]) return at + i;
    }
  }
  return std::nullopt;
}

std::optional<size_t> first_touched(std::span<const std::byte> bytes) {
  const auto found = std::find_if(bytes.begin(), bytes.end(), [](std::byte b) { return b != kPoison; });
  if (found == bytes.end()) return std::nullopt;
  return static_cast<size_t>(found - bytes.begin());
}

}  // namespace uroce::client
