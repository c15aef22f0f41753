#pragma once

#include <cstdint>

#include "base/time.h"
#include "wire/ecn.h"
#include "wire/packet.h"

namespace uroce::qp {

/// The network has marked the packet: its ECN bits are CE (RFC 3168, section 5).
inline bool is_marked(const wire::Packet& packet) {
  return wire::ecn_of(packet.traffic_class) == wire::kCongestionMarked;
}

/// Decides when the peer gets a CNP, because what it sends meets congestion: one at once, the next one only
/// after the interval, if there was a marked packet since.
class NotificationPoint {
 public:
  void reset() {
    quiet_until_ = Instant{INT64_MIN};
    owes_ = false;
  }

  /// A packet with data came, marked. `interval`: between two CNPs; 0: none are sent.
  void marked(Duration interval, Instant now) { owes_ = owes_ || (interval.ns != 0 && now >= quiet_until_); }
  [[nodiscard]] bool owes_cnp() const { return owes_; }
  /// The CNP that is owed left.
  void cnp_sent(Duration interval, Instant now) {
    owes_ = false;
    quiet_until_ = now + interval;
  }

  /// Moments are on a clock that shows `by` more from now on.
  void shift(Duration by) { uroce::shift(by, quiet_until_); }

 private:
  Instant quiet_until_{INT64_MIN};
  bool owes_ = false;
};

}  // namespace uroce::qp
