#pragma once

#include <cstdint>

#include "base/time.h"
#include "port/tx_batch.h"
#include "qp/congestion/options.h"
#include "wire/ecn.h"
#include "wire/packet.h"

namespace uroce::qp {

struct Connection;

/// The network has marked the packet: its ECN bits are CE (RFC 3168, section 5).
inline bool is_marked(const wire::Packet& packet) {
  return wire::ecn_of(packet.traffic_class) == wire::kCongestionMarked;
}

/// Tells the peer by CNPs that what it sends meets congestion: one at once, the next one only after the
/// interval, if there was a marked packet since.
class NotificationPoint {
 public:
  void reset() {
    quiet_until_ = Instant{INT64_MIN};
    owes_ = false;
  }

  /// A packet with data came, marked.
  void marked(const CongestionOptions& options, Instant now) {
    owes_ = owes_ || (options.cnp_interval_us != 0 && now >= quiet_until_);
  }
  [[nodiscard]] bool owes_cnp() const { return owes_; }
  /// Writes the CNP that is owed. False: there is no buffer, and it is still owed.
  [[gnu::cold, gnu::noinline]] bool send(const Connection& connection, port::TxBatch& tx, Instant now);

  /// Moments are on a clock that shows `by` more from now on.
  void shift(Duration by) { uroce::shift(by, quiet_until_); }

 private:
  Instant quiet_until_{INT64_MIN};
  bool owes_ = false;
};

}  // namespace uroce::qp
