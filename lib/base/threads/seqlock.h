#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/threads/spin_wait.h"

namespace uroce {

/// A few words that one thread changes while others read them, and none of those ever sees a mix of two
/// versions: a sequence counter, in the low half of the first word, is odd while they change. All zero is
/// valid. Writers are serialised by the caller and wait for no reader; readers take no lock.
template <size_t kWords>
class Seqlock {
 public:
  using Words = std::array<uint64_t, kWords>;

  /// The low half of the first word is not the caller's: it must be zero.
  void write(const Words& words) {
    const uint64_t sequence = load_relaxed(words_[0]) & kSequence;  // this thread's, or ordered by the caller
    // The counter is odd from here on. Each word is released after it, so a reader that sees a new one also
    // sees, at its second look, that the counter has moved.
    __atomic_store_n(&words_[0], sequence + 1, __ATOMIC_RELAXED);
    for (size_t i = 1; i < kWords; ++i) store(i, words[i]);
    store(0, words[0] | ((sequence + 2) & kSequence));
  }

  /// All zero also when a writer was at work during each of very many attempts. What the low half of the
  /// first word says means nothing.
  [[nodiscard]] Words read() const {
    const Words words = read_once();
    if (unchanged(words[0])) [[likely]]
      return words;
    return retry();
  }

  // For a reader that need not retry when a writer is at work. The first word first, then any others;
  // they belong together if after all of them it is unchanged().

  [[nodiscard]] uint64_t load(size_t word) const {
    return __atomic_load_n(&words_[word], __ATOMIC_ACQUIRE);  // pairs with the release in store()
  }
  /// No thread wrote since the first word was `before`.
  [[nodiscard]] bool unchanged(uint64_t before) const { return still(before) && (before & kChanging) == 0; }

  /// In the first word: a writer is at work. For readers that test it together with bits of their own in that
  /// word.
  static constexpr uint32_t kChanging = 1;
  /// The first word is `before`; unless it said kChanging, no thread wrote since. All loads in between were
  /// acquires, so this one cannot move before them.
  [[nodiscard]] bool still(uint64_t before) const { return load_relaxed(words_[0]) == before; }

 private:
  /// Without a loop: the words stay in registers.
  [[nodiscard]] Words read_once() const {
    return [this]<size_t... kWord>(std::index_sequence<kWord...>) {
      return Words{load(kWord)...};  // in this order
    }(std::make_index_sequence<kWords>());
  }
  /// Not inlined, for the sake of readers that succeed at the first attempt.
  [[gnu::noinline, gnu::cold]] [[nodiscard]] Words retry() const {
    SpinWait wait;
    for (int attempts = 1; attempts < kAttemptsMax; ++attempts) {
      wait.once();
      const Words words = read_once();
      if (unchanged(words[0])) return words;
    }
    return {};
  }

  static constexpr uint64_t kSequence = UINT32_MAX;
  /// A writer may lose its core half-way, in the middle of a change that leaves what was there usable: it is
  /// given the reader's. But it cannot hold up a poller for ever.
  static constexpr int kAttemptsMax = 1000;

  void store(size_t word, uint64_t value) {
    __atomic_store_n(&words_[word], value, __ATOMIC_RELEASE);  // pairs with the acquire in load()
  }
  /// Partners as said where it is used.
  static uint64_t load_relaxed(const uint64_t& word) { return __atomic_load_n(&word, __ATOMIC_RELAXED); }

  Words words_{};
};

}  // namespace uroce
