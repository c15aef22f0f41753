#include "faults/breakage.h"

#include "host/control.h"

namespace uroce::faults {

std::optional<Scope> parse_breakage(std::string_view text) {
  if (!text.starts_with(host::kBreakOrder)) return std::nullopt;
  text.remove_prefix(host::kBreakOrder.size());
  Scope meant;
  const Status read = store_pairs(text, [&](std::string_view key, std::string_view value) {
    return is_scope_key(key) ? store_scope(key, value, meant) : Complaint("nothing is broken by that key");
  });
  const bool names_device = !meant.device.empty() || meant.client.has_value();
  if (!read || meant.queue_pair.has_value() == names_device) return std::nullopt;
  return meant;
}

}  // namespace uroce::faults
