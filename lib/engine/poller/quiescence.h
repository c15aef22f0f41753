#pragma once

#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

#include "engine/poller/turn_lock.h"
#include "mem/rights/grace_period.h"

namespace uroce::engine {

/// Grace periods over the pollers of one device. No report per burst is needed: a poller is quiescent
/// whenever its turn lock is free, so one that is not being turned never holds a waiter up; unless it has
/// left copies under way, for which it needs one more turn.
class Quiescence final : public mem::GracePeriod {
 public:
  /// Set-up only, before the first wait(). Not owned; outlives this. `turn` makes a turn of the poller.
  void watch(TurnLock& lock, std::function<void()> turn = nullptr) {
    locks_.push_back(&lock);
    turns_.push_back(std::move(turn));
  }

  /// How many there are.
  [[nodiscard]] size_t pollers() const { return locks_.size(); }

  void wait() override;
  void begin(mem::GraceTicket& ticket) override;
  bool over(mem::GraceTicket& ticket) override;

 private:
  std::vector<TurnLock*> locks_;
  std::vector<std::function<void()>> turns_;  // by lock
};

}  // namespace uroce::engine
