#pragma once

#include <algorithm>
#include <cstdint>

#include "base/values/identifiers.h"
#include "base/values/time.h"

namespace uroce::engine {

/// RSS mismatch: counts the bursts in a row whose packets of a queue pair arrived at another poller than its
/// owner, and decides when the queue pair migrates. Bursts are counted, not packets.
///
/// Where frames go back the way they came, as on a ring of DPDK, both ends of a connection may be about to
/// move to each other's poller: then each would have gone from where the other one comes to. So the number of
/// the queue pair decides, too, how soon it moves; and each move makes the next one come later, until the
/// queue pair has stayed for a while.
class RssMismatch {
 public:
  /// One more burst with packets from `sibling`. True: the queue pair should move there; counts anew.
  bool note(uint16_t sibling, QpNumber number) {
    if (from_ != sibling) count_ = 0;
    from_ = sibling;
    if (++count_ < patience(number)) return false;
    count_ = 0;
    return true;
  }
  /// Packets of the queue pair came to its own poller, too: counts anew.
  void forget() { count_ = 0; }
  [[nodiscard]] bool any() const { return count_ != 0; }

  /// The queue pair has moved; clocks of pollers differ by `by`.
  void moved(Instant now, Duration by) {
    shift(by, moved_at_);
    moves_ = now - moved_at_ > kStay ? 1 : std::min<uint8_t>(moves_ + 1, kDoublingsMax);
    moved_at_ = now;
    count_ = 0;
  }

 private:
  static constexpr uint32_t kBurstsMin = 32;
  static constexpr uint8_t kDoublingsMax = 10;
  static constexpr Duration kStay = seconds(1);

  /// Between kBurstsMin and four times that, times two for each move.
  [[nodiscard]] uint32_t patience(QpNumber number) const {
    const uint32_t mixed = (number.value + moves_) * 2654435761u >> 25;  // 7 bits
    return (kBurstsMin + mixed * 3 / 4) << moves_;
  }

  uint32_t count_ = 0;
  uint16_t from_ = UINT16_MAX;
  uint8_t moves_ = 0;
  Instant moved_at_{INT64_MIN / 2};
};

}  // namespace uroce::engine
