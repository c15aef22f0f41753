#pragma once

#include <algorithm>
#include <cstdint>

#include "base/time.h"

namespace uroce::qp {

/// An algorithm of congestion control, for one queue pair: is told what the connection meets, and answers by
/// a window and a rate. It has no limit before its first path_changed().
class CongestionAlgorithm {
 public:
  CongestionAlgorithm() = default;
  CongestionAlgorithm(const CongestionAlgorithm&) = delete;
  CongestionAlgorithm& operator=(const CongestionAlgorithm&) = delete;
  virtual ~CongestionAlgorithm() = default;

  // Events.

  /// The connection begins to send, on a path of which nothing is known. `mtu`: bytes of a packet, at most.
  virtual void path_changed(uint32_t mtu) = 0;
  /// A packet left while limits().
  virtual void sent(uint32_t /*bytes*/) {}
  /// The requester stopped because window() packets are unanswered.
  virtual void window_filled() {}
  /// An answer came so long after its request. The newest one of a turn.
  virtual void acknowledged(Duration /*round_trip*/, Instant /*now*/) {}
  /// An answer did not come within the ACK timeout.
  virtual void timed_out(Instant /*now*/) {}
  /// The peer says that the network has marked packets. `port_mbps`: speed of the port's link; 0: unknown.
  virtual void cnp(uint32_t /*port_mbps*/, Instant /*now*/) {}
  /// Work of timers that is due. Timers count when the rate is wanted, so that an idle queue pair has none.
  virtual void advance(Instant /*now*/) {}
  /// Moments are on a clock that shows `by` more from now on.
  virtual void shift(Duration /*by*/) {}

  // The answer.

  /// Packets are held back.
  [[nodiscard]] bool limits() const { return limits_; }
  /// Packets that may be unanswered; 1 at least.
  [[nodiscard]] uint32_t window() const { return window_; }
  /// In Mbit/s; 0: time holds nothing back.
  [[nodiscard]] double mbps() const { return mbps_; }

 protected:
  void limit_nothing() {
    limits_ = false;
    window_ = UINT32_MAX;
    mbps_ = 0;
  }
  void limit_window(double packets) {
    limits_ = true;
    window_ = std::max(static_cast<uint32_t>(packets), 1u);
    mbps_ = 0;
  }
  void limit_rate(double mbps) {
    limits_ = true;
    mbps_ = mbps;
  }

 private:
  bool limits_ = false;
  uint32_t window_ = UINT32_MAX;
  double mbps_ = 0;
};

}  // namespace uroce::qp
