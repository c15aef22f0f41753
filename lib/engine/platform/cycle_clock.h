#pragma once

#include <cstdint>

#include "base/values/time.h"

namespace uroce::engine {

/// A thread's own clock: the system's monotonic clock, extrapolated by the CPU's cycle counter, which is read
/// several times faster. `Source` has static functions: uint64_t cycles(), and Instant system().
///
/// It is set by the system's clock every kSyncEvery. In between the two differ by less than a thousandth of
/// the time since; a counter that stops, jumps or runs backwards (suspension, migration of a virtual machine)
/// is followed after kSyncEvery at the latest. It goes back only where the counter jumped.
template <typename Source>
class CycleClock {
 public:
  static constexpr Duration kSyncEvery = milliseconds(20);

  Instant now() {
    const uint64_t passed = Source::cycles() - set_at_;
    if (passed >= cycles_until_sync_) [[unlikely]]
      return synchronize();
    return extrapolated(passed);
  }

 private:
  /// A shorter time says too little of how fast the counter runs.
  static constexpr Duration kMeasuredMin = milliseconds(1);
  /// Between two looks at the counter that have one at the system's clock between them. What takes longer was
  /// interrupted.
  static constexpr uint64_t kLookCyclesMax = 2048;
  static constexpr int kLooksMax = 3;
  static constexpr int kFactorBits = 32;
  /// Nanoseconds of a cycle: from 10 GHz to 250 MHz.
  static constexpr uint64_t kFactorMin = (uint64_t{1} << kFactorBits) / 10;
  static constexpr uint64_t kFactorMax = uint64_t{4} << kFactorBits;

  struct Pair {
    uint64_t cycles = 0;
    Instant time{};
  };

  [[nodiscard]] Instant extrapolated(uint64_t passed) const {
    return base_ + Duration{static_cast<int64_t>(passed * factor_ >> kFactorBits)};
  }

  /// What both clocks say at once. False: the thread was interrupted each time, and `pair` has a time only.
  static bool look(Pair& pair) {
    for (int looks = 0; looks < kLooksMax; ++looks) {
      const uint64_t before = Source::cycles();
      pair.time = Source::system();
      const uint64_t taken = Source::cycles() - before;
      pair.cycles = before + taken / 2;
      if (taken <= kLookCyclesMax) return true;
    }
    return false;
  }

  /// The factor by which the counter ran since `last_`; 0: it cannot be said.
  [[nodiscard]] uint64_t measured(const Pair& pair) const {
    const Duration time = pair.time - last_.time;
    const uint64_t cycles = pair.cycles - last_.cycles;
    if (time < kMeasuredMin || cycles == 0) return 0;
    constexpr double kOne = uint64_t{1} << kFactorBits;
    const double factor = static_cast<double>(time.ns) / static_cast<double>(cycles) * kOne;
    return factor >= kFactorMin && factor <= kFactorMax ? static_cast<uint64_t>(factor) : 0;
  }

  [[gnu::noinline]] Instant synchronize() {
    Pair pair;
    if (!look(pair)) return pair.time;
    const bool first = last_.time.ns == 0;
    const bool too_early = !first && rate_ == 0 && pair.time - last_.time < kMeasuredMin;
    if (too_early) return pair.time;
    const uint64_t factor = first ? 0 : measured(pair);
    // A counter that went on while the system's clock stood still says nothing of what comes.
    const bool like_before = rate_ == 0 || (factor > rate_ - rate_ / 8 && factor < rate_ + rate_ / 8);
    const bool known = factor != 0 && like_before;
    const Instant reached = time_at(pair);
    last_ = pair;
    rate_ = known ? factor : 0;
    known ? go_on_from(pair, reached) : start_again(pair);
    return base_;
  }

  /// The time by this clock, or by the system's if this one has not been looked at for long.
  [[nodiscard]] Instant time_at(const Pair& pair) const {
    const uint64_t passed = pair.cycles - set_at_;
    return passed < 2 * cycles_until_sync_ ? extrapolated(passed) : pair.time;
  }

  /// The rate is to be measured: until then each look is at the system's clock.
  void start_again(const Pair& pair) {
    base_ = pair.time;
    set_at_ = pair.cycles;
    cycles_until_sync_ = 0;
  }

  /// `reached`: what this clock says now. A lead over the system's clock is given back until the next time.
  void go_on_from(const Pair& pair, Instant reached) {
    const Duration lead = reached - pair.time;
    const bool ahead = lead > Duration{} && lead.ns < kSyncEvery.ns / 2;
    base_ = ahead ? reached : pair.time;
    factor_ =
        ahead ? rate_ - rate_ * static_cast<uint64_t>(lead.ns) / static_cast<uint64_t>(kSyncEvery.ns) : rate_;
    set_at_ = pair.cycles;
    cycles_until_sync_ = (static_cast<uint64_t>(kSyncEvery.ns) << kFactorBits) / rate_;
  }

  Instant base_{};                  // the time at ...
  uint64_t set_at_ = 0;             // ... this count of cycles
  uint64_t factor_ = 0;             // nanoseconds of a cycle, times 2^kFactorBits
  uint64_t cycles_until_sync_ = 0;  // 0: the rate is not known
  uint64_t rate_ = 0;               // by which the counter runs; 0: not known
  Pair last_;                       // that the rate is measured from
};

}  // namespace uroce::engine
