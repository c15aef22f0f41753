#pragma once

#include <vector>

#include "engine/turn_lock.h"
#include "mem/grace_period.h"

namespace uroce::engine {

/// Grace periods over the pollers of one device. No report per burst is needed: a poller is quiescent
/// whenever its turn lock is free, so one that is not being turned never holds anybody up.
class Quiescence final : public mem::GracePeriod {
 public:
  /// Set-up only, before the first wait(). Not owned; outlives this.
  void watch(TurnLock& lock) { locks_.push_back(&lock); }

  void wait() override;
  void begin(mem::GraceTicket& ticket) override;
  bool over(mem::GraceTicket& ticket) override;

 private:
  std::vector<TurnLock*> locks_;
};

}  // namespace uroce::engine
