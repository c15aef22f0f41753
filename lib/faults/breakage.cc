#include "faults/breakage.h"

#include <string>

#include "host/control.h"

namespace uroce::faults {

std::optional<Rule> parse_breakage(std::string_view text) {
  if (!text.starts_with(host::kBreakOrder)) return std::nullopt;
  // A rule needs an effect; one that has any of its own is no order to break.
  const auto rule = parse_rule(std::string(text.substr(host::kBreakOrder.size())) + ",loss=100%");
  if (!rule) return std::nullopt;
  const bool names_device = !rule->device.empty() || rule->client.has_value();
  if (rule->queue_pair.has_value() == names_device) return std::nullopt;
  Rule meant{.device = rule->device, .queue_pair = rule->queue_pair, .client = rule->client};
  Rule expected = meant;
  expected.loss = kPerMillion;
  return *rule == expected ? std::optional(meant) : std::nullopt;
}

}  // namespace uroce::faults
