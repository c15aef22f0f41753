#include "faults/breakage.h"

#include <fmt/format.h>

#include <cerrno>

#include "host/control.h"

namespace uroce::faults {
namespace {

/// Which of them the keys that were given mean; nothing when it is none, or several.
std::optional<Breakage::What> meant_by(const host::Scope& scope, bool key, bool completions) {
  const bool device = !scope.device.empty();
  const bool client = scope.client.has_value();
  if (scope.queue_pair) {
    if (device || client || key) return std::nullopt;
    return completions ? Breakage::What::kCompletions : Breakage::What::kQueuePair;
  }
  if (completions) return std::nullopt;
  if (key) return client ? std::optional(Breakage::What::kKey) : std::nullopt;
  return device || client ? std::optional(Breakage::What::kDevice) : std::nullopt;
}

}  // namespace

std::optional<Breakage> parse_breakage(std::string_view text) {
  if (!text.starts_with(host::kBreakOrder)) return std::nullopt;
  text.remove_prefix(host::kBreakOrder.size());
  Breakage meant;
  bool key_given = false;
  bool completions = false;
  const Status read =
      host::store_pairs(text, [&](std::string_view key, std::string_view value) -> host::Complaint {
        if (host::is_scope_key(key)) return host::store_scope(key, value, meant.scope);
        if (key == "key") {
          key_given = true;
          return host::read_number(value, meant.key) ? std::nullopt
                                                     : host::Complaint("must be a key of memory");
        }
        if (key != "overflow" || value != "true") return "nothing is broken by that";
        completions = true;
        return std::nullopt;
      });
  const auto what = meant_by(meant.scope, key_given, completions);
  if (!read || !what) return std::nullopt;
  meant.what = *what;
  return meant;
}

std::string why_key_stays(uint32_t client, uint32_t key, int error) {
  if (error == EBUSY) return "key: windows are bound over that region, or it is being changed";
  return fmt::format("key: process {} has no region or bound window with key {:#x}", client, key);
}

}  // namespace uroce::faults
