#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

// Memory that one process changes while others copy it, of any length, where seqlock.h has a few words: it is
// copied word by word, and a version before it says whether the copy is of one piece.
namespace uroce {

/// Writes memory that others may read meanwhile. It has whole words, of which those behind `bytes` become
/// zero.
inline void store_words(std::byte* to, const std::byte* from, size_t bytes) {
  for (size_t at = 0; at < bytes; at += sizeof(uint64_t)) {
    uint64_t word = 0;
    std::memcpy(&word, from + at, std::min(bytes - at, sizeof word));
    // Release: pairs with load_words().
    __atomic_store_n(reinterpret_cast<uint64_t*>(to + at), word, __ATOMIC_RELEASE);
  }
}
/// Copies memory that another may write meanwhile.
inline void load_words(std::byte* to, const std::byte* from, size_t bytes) {
  for (size_t at = 0; at < bytes; at += sizeof(uint64_t)) {
    // Acquire: pairs with store_words().
    const uint64_t word = __atomic_load_n(reinterpret_cast<const uint64_t*>(from + at), __ATOMIC_ACQUIRE);
    std::memcpy(to + at, &word, std::min(bytes - at, sizeof word));
  }
}

/// Stands beside what store_words() writes: another version of it, another number. Of one writer. A copy by
/// load_words() is whole if the version was one that its reader takes before it, and is the same after it.
class Version {
 public:
  /// From here on what is there is not whole: to readers the version is `changing`, which none of them takes.
  void begin(uint64_t changing) {
    // Relaxed: each word is released after it, so a reader that has seen a new one sees this version, or a
    // later one, when it looks again.
    __atomic_store_n(&version_, changing, __ATOMIC_RELAXED);
  }
  void end(uint64_t version) {
    __atomic_store_n(&version_, version, __ATOMIC_RELEASE);  // pairs with load()
  }
  [[nodiscard]] uint64_t load() const {
    return __atomic_load_n(&version_, __ATOMIC_ACQUIRE);  // pairs with end()
  }
  /// All loads since load() were those of load_words(), which this one cannot move before.
  [[nodiscard]] bool still(uint64_t version) const {
    return __atomic_load_n(&version_, __ATOMIC_RELAXED) == version;
  }

 private:
  uint64_t version_ = 0;
};
static_assert(sizeof(Version) == sizeof(uint64_t));

}  // namespace uroce
