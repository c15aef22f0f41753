#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/values/identifiers.h"
#include "host/key_values.h"

namespace uroce::host {

/// Whose packets or objects an order means; nothing: those of all programs.
struct Scope {
  std::string device = {};             // by name; empty: of each device
  std::optional<QpNumber> queue_pair;  // of this one of ours
  std::optional<uint32_t> client;      // of this process

  [[nodiscard]] bool operator==(const Scope&) const = default;
};

/// "device", "qp" or "client".
bool is_scope_key(std::string_view key);
/// Stores the value of such a key.
Complaint store_scope(std::string_view key, std::string_view value, Scope& to);
/// "device=uroce0,qp=17": what store_pairs() and store_scope() make the same of; empty: of all.
std::string to_text(const Scope& scope);

}  // namespace uroce::host
