#pragma once

#include <algorithm>
#include <cstdint>

#include "base/time.h"
#include "qp/congestion/options.h"

namespace uroce::qp {

/// The window of a flow by Swift ("Swift: Delay is Simple and Effective for Congestion Control in the
/// Datacenter", SIGCOMM 2020, section 3, for the delay of the fabric): a round trip below the target adds to
/// it, one above takes a part of it, once in a round trip. A window below one packet is time between packets.
///
/// What differs from the paper:
/// - The target is so far above the shortest round trip of the path, for hops and lengths of paths are not
///   known here. A queue that flows keep hides how short it is. So a flow that has not seen the shortest one
///   for a while sends a packet at a time for a few round trips, and what it sees then is the shortest; then
///   the window doubles until it is what it was. Flows of one queue see it run empty together, and so do it
///   together from then on, as those of BBR do (draft-cardwell-iccrg-bbr-congestion-control, section 4.3.5).
/// - A flow starts with few packets, which it doubles until the first round trip that is too long.
/// - A lost packet changes nothing unless it is missed for an ACK timeout: there are paths that lose by
///   themselves, and a queue that is long enough to lose shows in round trips before.
class Swift {
 public:
  Swift() = default;
  /// A window has so many bytes for each packet.
  explicit Swift(uint32_t mtu) : mtu_(mtu) {}

  /// In packets, a fraction too.
  [[nodiscard]] double window() const { return window_; }
  /// In Mbit/s, of a window below one packet.
  [[nodiscard]] double rate() const;
  /// The round trip that is aimed at now; 0: none is known.
  [[nodiscard]] Duration target(const SwiftOptions& options) const;

  /// All of the window was under way.
  void filled() { filled_ = true; }
  /// An answer took so long.
  void measured(const SwiftOptions& options, Duration sample, Instant now);
  /// An answer did not come within the ACK timeout.
  void timed_out(const SwiftOptions& options, Instant now);

  static constexpr double kWindowAtFirst = 10;  // behind the first round trip: as TCP's (RFC 6928)
  static constexpr double kWindowMost = 256;    // SendWindow::kPackets
  static constexpr double kWindowLeast = 1.0 / 64;

  /// Moments are on a clock that shows `by` more from now on.
  void shift(Duration by) { uroce::shift(by, decreased_at_, based_at_); }

 private:
  enum class Phase : uint8_t {
    kFirst,    // no round trip is known
    kDoubles,  // up to goal_
    kDrains,   // a packet at a time
    kSteady,
  };
  /// Round trips of kDrains: of what went before it, and more.
  static constexpr uint32_t kDrainTrips = 4;
  // The shortest round trip is looked for when it was not seen for so long, or so many times itself.
  static constexpr Duration kBaseAgeMost = milliseconds(100);
  static constexpr int64_t kBaseTripsMost = 1000;

  void measured_late(const SwiftOptions& options, Duration target, Instant now);
  void measured_drained(Instant now);
  void grow(const SwiftOptions& options);
  void drain();
  [[nodiscard]] bool is_base_old(Instant now) const;
  [[nodiscard]] bool decrease(double factor, Instant now);

  double window_ = 1;
  double goal_ = kWindowMost;
  Duration base_{};    // the shortest round trip of the path
  Duration newest_{};  // round trip
  Instant decreased_at_{INT64_MIN / 2};
  Instant based_at_{};  // when base_ was seen last
  uint32_t mtu_ = 4096;
  uint32_t drain_trips_ = 0;
  Phase phase_ = Phase::kFirst;
  bool filled_ = false;
};

}  // namespace uroce::qp
