#pragma once

#include <algorithm>
#include <cstdint>

#include "base/values/time.h"
#include "qp/recovery/transport_timers.h"

namespace uroce::qp {

/// The ACK timer of a requester (IBTA: transport timer), and the attempts that retry_cnt allows. IBTA lets it
/// react between T and 4T, T being ack_timeout() of the queue pair's `timeout`.
///
/// Decision: consecutive ACK timeouts double from T to 4T, and any answer of the peer restarts the timer. A
/// peer without CPU time survives longer so, and one that answers only duplicates is alive. Cost: a dead peer
/// is noticed after 27T with seven retries, not after 8T.
class AckTimer {
 public:
  void reset() { *this = {}; }

  /// Starts, or starts anew. `code`: the queue pair's `timeout`, of which 0 means that it never expires.
  void start(uint8_t code, Instant now) {
    deadline_ = kNever;
    if (code == kNoAckTimeout) return;
    deadline_ = now + ack_timeout(static_cast<uint8_t>(code + std::min<uint32_t>(timeouts_, kDoublingsMax)));
  }
  void stop() { deadline_ = kNever; }
  [[nodiscard]] bool runs() const { return deadline_ != kNever; }
  [[nodiscard]] Instant deadline() const { return deadline_; }

  /// The peer has answered something, be it what it had answered before: it is not silent.
  void peer_alive(uint8_t code, Instant now) {
    timeouts_ = 0;
    if (runs()) start(code, now);
  }
  /// Something new is acknowledged: all counts begin anew, and the timer stops.
  void acknowledged() {
    retries_ = timeouts_ = 0;
    stop();
  }
  /// The deadline has passed without an answer.
  void expired() { ++timeouts_; }
  /// Counts an attempt; the timer stops. False: there were `limit` (retry_cnt) without progress.
  [[nodiscard]] bool may_retry(uint8_t limit) {
    stop();
    return ++retries_ <= limit;
  }
  /// Attempts so far do not count any more.
  void forgive() { retries_ = 0; }

  /// Moments are on a clock that shows `by` more from now on.
  void shift(Duration by) { uroce::shift(by, deadline_); }

 private:
  static constexpr uint32_t kDoublingsMax = 2;

  Instant deadline_ = kNever;
  uint8_t retries_ = 0;   // since the last progress
  uint8_t timeouts_ = 0;  // since the peer was alive
};

}  // namespace uroce::qp
