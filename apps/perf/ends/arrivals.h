#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "apps/perf/plan/layout.h"

namespace uroce::perf {

/// What came of messages that may be lost. Each brings the low 32 bits of its number as immediate data.
class Arrivals {
 public:
  /// `by_number`: message n lies in slot n (a WRITE); else the n-th to arrive does, whichever it was (a
  /// SEND).
  Arrivals(const Layout& layout, bool by_number) : by_number_(by_number), slots_(layout.slots) {
    landed_.resize(slots_);
  }

  /// A phase begins: its messages are those from `first` on.
  void begin(uint64_t first);

  /// The next message to arrive; returns its number.
  uint64_t note(uint32_t low_bits);

  /// One more than the highest number that arrived in the round: what is lower has come, or is lost.
  [[nodiscard]] uint64_t next() const { return next_; }
  /// Messages of this phase that arrived.
  [[nodiscard]] uint64_t count() const { return count_; }

  /// The last message in a slot of this phase; one of an earlier phase that came late counts, too.
  [[nodiscard]] std::optional<uint64_t> in_slot(uint32_t slot) const { return landed_[slot]; }
  /// Where the next message to arrive goes, unless `by_number`.
  [[nodiscard]] uint32_t open_slot() const { return static_cast<uint32_t>(received_ % slots_); }

 private:
  bool by_number_;
  uint32_t slots_;
  std::vector<std::optional<uint64_t>> landed_;
  uint64_t first_ = 0;
  uint64_t next_ = 0;
  uint64_t received_ = 0;  // in the round
  uint64_t count_ = 0;
};

/// The number whose low bits these are, near `reference`.
constexpr uint64_t full_number(uint64_t reference, uint32_t low_bits) {
  return reference + static_cast<uint64_t>(static_cast<int64_t>(
                         static_cast<int32_t>(low_bits - static_cast<uint32_t>(reference))));
}

}  // namespace uroce::perf
