#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>

#include "mem/grace_period.h"

namespace uroce::mem {

/// Turns as pollers make them: a counter per reader, odd within a turn.
class Turns : public GracePeriod {
 public:
  static constexpr size_t kReaders = 4;

  void begin(size_t reader) { turns_[reader].count.fetch_add(1); }
  void end(size_t reader) { turns_[reader].count.fetch_add(1); }

  void wait() override {
    for (Turn& turn : turns_) {
      const uint64_t at_call = turn.observe();
      if (at_call % 2 == 0) continue;
      while (turn.count.load() == at_call) std::this_thread::yield();
    }
  }
  void begin(GraceTicket& ticket) override {
    for (size_t i = 0; i < kReaders; ++i) ticket.observed[i] = turns_[i].observe();
  }
  bool over(GraceTicket& ticket) override {
    for (size_t i = 0; i < kReaders; ++i) {
      if (ticket.observed[i] % 2 == 1 && turns_[i].count.load() == ticket.observed[i]) return false;
    }
    return true;
  }

 private:
  struct alignas(64) Turn {
    std::atomic<uint64_t> count{0};

    /// A read-modify-write, as TurnLock::observe() is: a load could come before the stores that unpublished.
    uint64_t observe() { return count.fetch_add(0); }
  };
  Turn turns_[kReaders];
};

}  // namespace uroce::mem
