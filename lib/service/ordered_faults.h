#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "base/counters/fault_counts.h"
#include "base/values/time.h"
#include "faults/rule.h"
#include "faults/schedule.h"

namespace uroce::service {

/// A fault that programs of the service are told of, from the order to its end.
struct OrderedFault {
  using Counts = std::array<uint64_t, static_cast<size_t>(FaultCount::kCount)>;

  uint32_t id = 0;
  faults::Rule rule;
  Instant since{};  // when it was ordered
  // The connection that waits to hear whether it applies, and its request; 0: none.
  uint32_t caller = 0;
  uint32_t request = 0;
  std::optional<uint32_t> key = std::nullopt;  // of memory, that is broken
  bool once = false;                           // something is broken at once; it is over with the answer
  // Instead of a fault, frames are captured: the order, and the connection that has ordered it, with which it
  // ends.
  std::string capture = {};
  uint32_t owner = 0;
  // Captures that were not passed on, as the owner had not read the ones before them; it is told with the
  // next one.
  uint32_t not_passed_on = 0;
  Counts ended{};  // of programs that have ended

  [[nodiscard]] faults::FaultState state(Instant now) const { return faults::state_after(rule, now - since); }
  /// The rule with what is left of its time, for a program that hears of it now; null: it is over.
  [[nodiscard]] std::optional<faults::Rule> rule_left(Instant now) const {
    return faults::left_after(rule, now - since);
  }
};

}  // namespace uroce::service
