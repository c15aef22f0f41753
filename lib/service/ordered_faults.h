#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "base/fault_counts.h"
#include "base/time.h"
#include "faults/rule.h"

namespace uroce::service {

/// A fault that programs of the service are told of, from the order to its end.
struct OrderedFault {
  using Counts = std::array<uint64_t, static_cast<size_t>(FaultCount::kCount)>;
  enum class State : uint8_t { kWaiting, kActive, kOver };

  uint32_t id = 0;
  faults::Rule rule;
  Instant since{};  // when it was ordered
  // The connection that waits to hear whether it applies, and its request; 0: none.
  uint32_t asker = 0;
  uint32_t request = 0;
  std::string missing = {};  // what to say when the program has not got it
  bool once = false;         // something is broken at once; it is over with the answer
  // Instead of a fault, frames are captured: the order, and the connection that has ordered it, with which it
  // ends.
  std::string capture = {};
  uint32_t owner = 0;
  Counts ended{};  // of programs that have ended

  [[nodiscard]] State state(Instant now) const {
    const Duration elapsed = now - since;
    if (rule.lasts && elapsed >= rule.after + *rule.lasts) return State::kOver;
    return elapsed < rule.after ? State::kWaiting : State::kActive;
  }
  /// The rule with what is left of its time, for a program that hears of it now; null: it is over.
  [[nodiscard]] std::optional<faults::Rule> rule_left(Instant now) const {
    if (state(now) == State::kOver) return std::nullopt;
    faults::Rule left = rule;
    const Duration elapsed = now - since;
    left.after = std::max(Duration{}, rule.after - elapsed);
    if (rule.lasts) left.lasts = rule.after + *rule.lasts - std::max(elapsed, rule.after);
    return left;
  }
};

}  // namespace uroce::service
