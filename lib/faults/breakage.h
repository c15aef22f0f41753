#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "host/scope.h"

namespace uroce::faults {

/// What is broken at once.
struct Breakage {
  enum class What : uint8_t {
    kQueuePair,    // ends in the error state
    kCompletions,  // of a queue pair: its completion queues overflow
    kDevice,       // fails, for a process or for all programs
    kKey,          // of a process's region or window: it stands for nothing any more
  };

  What what = What::kDevice;
  host::Scope scope = {};
  uint32_t key = 0;

  [[nodiscard]] bool operator==(const Breakage&) const = default;
  /// One program is meant, and says whether it has it.
  [[nodiscard]] bool is_of_one() const { return what != What::kDevice; }
};

/// What to say when a process did not take a key away: by EBUSY, or because it has none.
std::string why_key_stays(uint32_t client, uint32_t key, int error);

/// What an order that begins with host::kBreakOrder is to break. Nothing: the text orders no such thing, or
/// names nothing, or more than one of them.
std::optional<Breakage> parse_breakage(std::string_view text);

}  // namespace uroce::faults
