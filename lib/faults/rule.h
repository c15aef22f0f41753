#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/values/result.h"
#include "base/values/time.h"
#include "host/scope.h"

namespace uroce::faults {

/// Chances are so many in a million frames: 0.0001 % is the least.
inline constexpr uint32_t kPerMillion = 1'000'000;

/// What the responder says instead of performing a request.
enum class Refusal : uint8_t { kRnr, kAccess, kInvalid, kOperational };

/// One fault that was ordered: which packets it concerns, when, and what becomes of them. All of its effects
/// are independent of each other.
struct Rule {
  host::Scope scope = {};  // of the packets, as they are received
  // What becomes of them.
  uint32_t loss = 0;
  uint32_t duplicate = 0;
  uint32_t reorder = 0;
  uint32_t corrupt = 0;
  uint32_t ecn = 0;
  uint32_t nak = 0;
  Refusal refusal = Refusal::kRnr;
  Duration delay = {};
  Duration jitter = {};
  uint64_t rate = 0;  // bits of frames a second; 0: any
  uint64_t seed = 1;
  // When, from the moment at which it was ordered.
  Duration after = {};
  std::optional<Duration> lasts;

  [[nodiscard]] bool operator==(const Rule&) const = default;
  [[nodiscard]] bool delays() const { return delay.ns > 0 || rate > 0 || reorder > 0; }
};

/// Rules of a process or a service at once.
inline constexpr size_t kRulesMax = 16;
/// Characters of a rule's text.
inline constexpr size_t kRuleTextMax = 480;

/// A rule that is in force, under the number by which it can be ended.
struct NumberedRule {
  uint32_t id = 0;
  Rule rule;
};

/// "loss=1%,delay=100us,seed=7": keys and values as `uroce fault add` has options. The error is EINVAL, and
/// names the key.
Result<Rule> parse_rule(std::string_view text);
/// parse_rule() of it gives the same rule.
std::string to_text(const Rule& rule);

}  // namespace uroce::faults
