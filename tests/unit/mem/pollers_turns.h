#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#include "mem/grace_period.h"

namespace uroce::mem::testing {

/// Pollers that turn, and count: odd within a turn. `self` is the poller that the calling thread is, if any;
/// it does not wait for itself.
class Turns final : public GracePeriod {
 public:
  explicit Turns(size_t pollers) : counts_(pollers) {}

  void enter(size_t poller) { counts_[poller].value.fetch_add(1); }
  void leave(size_t poller) { counts_[poller].value.fetch_add(1); }

  void wait() override {
    GraceTicket ticket;
    begin(ticket);
    while (!over(ticket)) std::this_thread::yield();
  }
  /// By a read-modify-write, as TurnLock::observe(): a load could come before the stores that unpublished.
  void begin(GraceTicket& ticket) override {
    for (size_t i = 0; i < counts_.size(); ++i)
      ticket.observed[i] = i == self ? 0 : counts_[i].value.fetch_add(0);
  }
  bool over(GraceTicket& ticket) override {
    for (size_t i = 0; i < counts_.size(); ++i) {
      if (ticket.observed[i] % 2 == 1 && counts_[i].value.load() == ticket.observed[i]) return false;
    }
    return true;
  }

  static inline thread_local size_t self = SIZE_MAX;

 private:
  struct alignas(64) Count {
    std::atomic<uint64_t> value{0};
  };
  std::vector<Count> counts_;
};

}  // namespace uroce::mem::testing
