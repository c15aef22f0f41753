#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "base/values/time.h"
#include "faults/rule.h"

namespace uroce::faults {

enum class RuleState : uint8_t { kWaiting, kActive, kOver };

/// The word of `uroce fault list` for a state.
constexpr const char* name_of(RuleState state) {
  switch (state) {
    case RuleState::kWaiting:
      return "waiting";
    case RuleState::kActive:
      return "active";
    case RuleState::kOver:
      break;
  }
  return "over";
}

/// The state of a rule that was ordered so long ago.
inline RuleState state_after(const Rule& rule, Duration elapsed) {
  if (rule.lasts && elapsed >= rule.after + *rule.lasts) return RuleState::kOver;
  return elapsed < rule.after ? RuleState::kWaiting : RuleState::kActive;
}

/// The rule with what is left of its time by then, for those that hear of it only now; null: it is over.
inline std::optional<Rule> left_after(const Rule& rule, Duration elapsed) {
  if (state_after(rule, elapsed) == RuleState::kOver) return std::nullopt;
  Rule left = rule;
  left.after = std::max(Duration{}, rule.after - elapsed);
  if (rule.lasts) left.lasts = rule.after + *rule.lasts - std::max(elapsed, rule.after);
  return left;
}

}  // namespace uroce::faults
