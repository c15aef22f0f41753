#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <utility>
#include <vector>

#include "mem/rights/grace_period.h"

namespace uroce::mem {

/// Turns as pollers make them: a counter for each, odd within a turn.
class Turns final : public GracePeriod {
 public:
  static constexpr size_t kReaders = 4;

  explicit Turns(size_t pollers = kReaders) : counts_(pollers) {}

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
      ticket.observed()[i] = i == self_ ? 0 : counts_[i].value.fetch_add(0);
  }
  bool over(GraceTicket& ticket) override {
    for (size_t i = 0; i < counts_.size(); ++i) {
      if (ticket.observed()[i] % 2 == 1 && counts_[i].value.load() == ticket.observed()[i]) return false;
    }
    return true;
  }

  /// As long as this lives the calling thread is that poller, which does not wait for itself.
  class Self {
   public:
    explicit Self(size_t poller) : before_(std::exchange(self_, poller)) {}
    ~Self() { self_ = before_; }
    Self(const Self&) = delete;
    Self& operator=(const Self&) = delete;

   private:
    const size_t before_;
  };

 private:
  static inline thread_local size_t self_ = SIZE_MAX;

  struct alignas(64) Count {
    std::atomic<uint64_t> value{0};
  };
  std::vector<Count> counts_;
};

}  // namespace uroce::mem
