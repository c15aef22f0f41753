#pragma once

#include <algorithm>
#include <cstdint>
#include <variant>

#include "base/time.h"
#include "qp/congestion/dcqcn.h"
#include "qp/congestion/options.h"
#include "qp/congestion/swift.h"

namespace uroce::qp {

/// What a connection has seen of its path so far.
struct PathSeen {
  uint32_t samples = 0;   // round trips, modulo 2^32, ...
  Duration round_trip{};  // ... the newest of them
  uint32_t timeouts = 0;  // likewise: answers that did not come
};

/// How many packets of a queue pair may be under way, and when the next one may leave, by the algorithm of
/// its options. Requests and the responses to READs share the rate of DCQCN; Swift limits requests, whose
/// round trips are measured. What waits for its time leaves deadline() to the timers of the poller.
class RateLimit {
 public:
  /// Nothing is held back.
  void reset() { *this = {}; }
  /// The connection can send, or gets another algorithm. `seen`: of its path so far.
  void begin(const CongestionOptions& options, uint32_t mtu, const PathSeen& seen);

  /// Packets are held back: ask window() and may_send() before each, and tell sent().
  [[nodiscard]] bool limits() const { return limits_; }
  /// True while the rate holds back responses to READs, too, as that of DCQCN does.
  [[nodiscard]] bool limits_responses() const { return limits_ && std::holds_alternative<Dcqcn>(algorithm_); }
  /// Packets that may be unanswered; 1 at least.
  [[nodiscard]] uint32_t window() const {
    const auto* const swift = std::get_if<Swift>(&algorithm_);
    return swift == nullptr ? UINT32_MAX : std::max(static_cast<uint32_t>(swift->window()), 1u);
  }
  /// In Mbit/s; 0: time holds nothing back.
  [[nodiscard]] double rate() const;

  void cnp(const CongestionOptions& options, Instant now);
  /// Takes in what the connection has seen since the last call.
  void heed(const CongestionOptions& options, const PathSeen& seen, Instant now);
  /// To be called when the requester stops because window() packets are under way.
  void filled() {
    if (auto* const swift = std::get_if<Swift>(&algorithm_)) swift->filled();
  }

  /// One more packet may leave now. False: at deadline().
  [[nodiscard]] bool may_send(const CongestionOptions& options, Instant now);
  void sent(const CongestionOptions& options, uint32_t bytes);

  /// When what waits may leave; kNever: nothing waits.
  [[nodiscard]] Instant deadline() const { return wake_at_; }
  void expire(Instant now) {
    if (now >= wake_at_) wake_at_ = kNever;
  }

  /// Moments are on a clock that shows `by` more from now on.
  void shift(Duration by);

 private:
  /// The timers of a poller are late by up to a tick of 16 us, and turns may be. What did not leave
  /// meanwhile leaves then, at once.
  static constexpr Duration kLateMost = microseconds(48);

  std::variant<std::monostate, Dcqcn, Swift> algorithm_;
  bool limits_ = false;
  uint32_t samples_ = 0;  // that were heeded
  uint32_t timeouts_ = 0;
  Instant next_{INT64_MIN};  // when the next packet leaves, ...
  double fraction_ns_ = 0;   // ... and a part of a nanosecond later
  Instant wake_at_ = kNever;
};

}  // namespace uroce::qp
