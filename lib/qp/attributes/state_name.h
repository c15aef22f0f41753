#pragma once

#include <array>
#include <cstddef>
#include <string_view>

namespace uroce::qp {

inline constexpr std::array<std::string_view, 7> kStateNames{"RESET", "INIT", "RTR", "RTS",
                                                             "SQD",   "SQE",  "ERR"};

/// The name of a queue pair's state, of `enum ibv_qp_state`; the value may be any that a process has written.
constexpr std::string_view state_name(size_t state) {
  return state < kStateNames.size() ? kStateNames[state] : "unknown";
}

}  // namespace uroce::qp
