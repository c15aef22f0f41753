#pragma once

#include <algorithm>
#include <optional>

#include "base/values/time.h"
#include "faults/rule.h"
#include "host/orders_format.h"

namespace uroce::faults {

using host::FaultState;

/// The word of `uroce fault list` for a state.
constexpr const char* name_of(FaultState state) {
  switch (state) {
    case FaultState::kWaiting:
      return "waiting";
    case FaultState::kActive:
      return "active";
    case FaultState::kOver:
      break;
  }
  return "over";
}

/// The state of a rule that was ordered so long ago.
inline FaultState state_after(const Rule& rule, Duration elapsed) {
  if (rule.lasts && elapsed >= rule.after + *rule.lasts) return FaultState::kOver;
  return elapsed < rule.after ? FaultState::kWaiting : FaultState::kActive;
}

/// The rule with what is left of its time by then, for those that hear of it only now; null: it is over.
inline std::optional<Rule> left_after(const Rule& rule, Duration elapsed) {
  if (state_after(rule, elapsed) == FaultState::kOver) return std::nullopt;
  Rule left = rule;
  left.after = std::max(Duration{}, rule.after - elapsed);
  if (rule.lasts) left.lasts = rule.after + *rule.lasts - std::max(elapsed, rule.after);
  return left;
}

}  // namespace uroce::faults
