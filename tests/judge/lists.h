#pragma once

#include <cstdint>

#include "tests/judge/operation.h"

namespace uroce::judge {

/// What a list may have.
struct Conditions {
  uint32_t path_mtu = 1024;
  uint32_t requests_max = 200;
  uint32_t inline_max = 0;
  bool windows = false;         // both ends have windows of type 2
  bool local_requests = false;  // and the requester binds one in the list
};

/// The same list for the same arguments, at both ends.
List make_list(uint64_t seed, const Conditions& conditions);

/// No list takes more of either arena, nor has more requests.
inline constexpr uint32_t kRequestsMax = 200;
inline constexpr uint32_t kArenaBytes = 2 << 20;

}  // namespace uroce::judge
