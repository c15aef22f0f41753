#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "host/scope.h"

namespace uroce::faults {

/// What is broken at once.
struct Breakage {
  enum class What : uint8_t {
    kQueuePair,    // ends in the error state
    kCompletions,  // of a queue pair: its completion queues overflow
    kDevice,       // fails, for a process or for all programs
    kKey,          // of a process's region: it stands for nothing any more
  };

  What what = What::kDevice;
  host::Scope scope = {};
  uint32_t key = 0;

  [[nodiscard]] bool operator==(const Breakage&) const = default;
  /// One program is meant, and says whether it has it.
  [[nodiscard]] bool is_of_one() const { return what != What::kDevice; }
};

/// What an order that begins with host::kBreakOrder is to break. Nothing: the text orders no such thing, or
/// names nothing, or more than one of them.
std::optional<Breakage> parse_breakage(std::string_view text);

}  // namespace uroce::faults
