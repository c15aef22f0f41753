#pragma once

#include <cstdint>

#include "base/time.h"
#include "copy/engine.h"

namespace uroce::engine {

/// How long a poller waits for its copy engine, and how it does so inside a turn.
class CopyPatience final : public copy::Patience {
 public:
  /// An engine at work takes microseconds: one that takes this long never ends.
  static constexpr Duration kMax = seconds(1);

  explicit CopyPatience(Instant (*clock)()) : clock_(clock) {}

  void begin() override;
  bool wait() override;

 private:
  static constexpr uint32_t kQuickLooks = 64;  // before the CPU is offered to others

  Instant (*const clock_)();
  Instant last_{};
  Duration waited_{};
  uint32_t looks_ = 0;
};

}  // namespace uroce::engine
