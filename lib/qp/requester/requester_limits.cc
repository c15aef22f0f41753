// What congestion control has the requester do.
//
// Decision: under a rate every packet requests an ACK, and waits in the poller's timers. What is sent again
// alone does not wait, nor what a queue pair owes when it ends. Not covered: UD.
#include <algorithm>

#include "qp/requester/requester.h"

namespace uroce::qp {

/// What congestion control leaves of the window, by what was seen of the path.
uint32_t Requester::limited_window(Instant now) {
  send_.connection.congestion.observe(send_.recovery.path_seen(), now);
  return send_.recovery.window_within(send_.connection.congestion.window());
}

/// How long the parts are of a READ that starts while the window may be small: as short as they can be if as
/// many as the peer answers at a time shall make up the window. A READ keeps its parts, so that long ones, in
/// whose time the window may grow, do not get the shortest.
uint8_t Requester::short_part_shift(uint32_t packets) const {
  constexpr uint32_t kAtATimeMost = 16;
  const uint32_t window = send_.recovery.window_within(send_.connection.congestion.window());
  const uint32_t at_a_time = std::min<uint32_t>(send_.connection.attributes.max_rd_atomic, kAtATimeMost);
  uint8_t shift = SendWindow::kShortPartShift;
  if (packets > SendWindow::kPackets / 4) ++shift;
  if (packets > SendWindow::kPackets) ++shift;
  while (shift < SendWindow::kPartShift && at_a_time << shift < window) ++shift;
  return shift;
}

/// True: packets leave at a rate. Then each asks for its ACK, for the next one may be long in coming. What is
/// timed asks, too.
bool Requester::begin_limited() {
  const bool paced = send_.connection.congestion.mbps() != 0;
  asks_each_ |= paced || !send_.recovery.rtt().timing();
  return paced;
}

void Requester::note_limited(uint32_t window) {
  if (send_.window.unanswered() >= window) send_.connection.congestion.window_filled();
  send_.recovery.time_undisturbed();
}

}  // namespace uroce::qp
