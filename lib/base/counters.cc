#include "base/counters.h"

namespace uroce {

std::string_view counter_label(Counter counter) {
  static constexpr std::array<std::string_view, kCounterCount> kLabels = {
#define X(name, label, unit, help) label,
      UROCE_COUNTERS(X)
#undef X
  };
  return kLabels[static_cast<size_t>(counter)];
}

}  // namespace uroce
