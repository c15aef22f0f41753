#pragma once

#include <cstdint>

#include "base/values/time.h"
#include "service/client_session.h"

namespace uroce::service {

/// How fast a program's counters went up between the last two looks at them.
class TrafficMeter {
 public:
  /// A second.
  struct Rates {
    uint64_t frames_from = 0;
    uint64_t bytes_from = 0;
    uint64_t frames_to = 0;
    uint64_t bytes_to = 0;
  };

  explicit TrafficMeter(Instant begin = {}) : at_(begin) {}

  void look(const ClientSession::Counters& counters, Instant now) {
    const Duration time = now - at_;
    if (time < kLeast) return;
    rates_ = {.frames_from = a_second(counters.frames_from - seen_.frames_from, time),
              .bytes_from = a_second(counters.bytes_from - seen_.bytes_from, time),
              .frames_to = a_second(counters.frames_to - seen_.frames_to, time),
              .bytes_to = a_second(counters.bytes_to - seen_.bytes_to, time)};
    seen_ = counters;
    at_ = now;
  }
  [[nodiscard]] const Rates& rates() const { return rates_; }

 private:
  /// The shortest time between two looks: in less, a single burst would look like a rate.
  static constexpr Duration kLeast = milliseconds(500);

  static uint64_t a_second(uint64_t count, Duration time) {
    return static_cast<uint64_t>(
        static_cast<double>(count) * static_cast<double>(seconds(1).ns) / static_cast<double>(time.ns) + 0.5);
  }

  Instant at_;
  ClientSession::Counters seen_;
  Rates rates_;
};

}  // namespace uroce::service
