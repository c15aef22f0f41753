#pragma once

#include <cstdint>

#include "base/values/sequence_number.h"
#include "qp/connection/send_window.h"

namespace uroce::qp {

/// What the end that waits for packets knows about their order.
///
/// Decision: reordering is detected, not configured. What another packet has overtaken is lost, until that
/// was wrong once: it was asked for again, and came twice; later, 64 packets have to overtake one. Cost: a
/// loss near the end of a burst is then found by a probe.
class Reordering {
 public:
  void reset() { *this = {}; }

  /// The packet `due` has not come, `psn` behind it has.
  [[nodiscard]] bool is_lost(Psn due, Psn psn) const { return !seen_ || psn - due > kOvertakersMax; }
  /// The packet `due` is asked for again. The next one that is remembered is so far behind that this has come
  /// twice or never will.
  void asked(Psn due) {
    if (any_ && due - asked_ < static_cast<int32_t>(kKeptAhead)) return;
    asked_ = due;
    any_ = true;
  }
  /// What was asked for again is asked for once more: that it comes twice says nothing from now on.
  void forget() { any_ = false; }
  /// `psn` has come once more.
  void came_again(Psn psn) { seen_ |= any_ && psn == asked_; }

 private:
  /// On a path that reorders (adaptive routing, bonded links) a packet that has not come is lost, not late,
  /// when one has come that is behind so many others.
  static constexpr int32_t kOvertakersMax = 64;

  bool seen_ = false;
  bool any_ = false;
  Psn asked_;  // if any_
};

}  // namespace uroce::qp
