#pragma once

#include "base/threads/spin_wait.h"
#include "base/values/time.h"
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
  Instant (*const clock_)();
  Instant last_{};
  Duration waited_{};
  SpinWait spin_;  // an engine may be a thread that wants this CPU
};

}  // namespace uroce::engine
