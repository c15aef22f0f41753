#pragma once

#include <cstdint>

#include "base/time.h"
#include "qp/congestion/algorithm.h"

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
class Swift : public CongestionAlgorithm {
 public:
  // Names and values of the paper (algorithm 1 and section 3.5).
  static constexpr double kIncrease = 1;                   // ai, packets in a round trip
  static constexpr double kBeta = 0.8;                     // of what is beyond the target, in a decrease
  static constexpr double kDecreaseMost = 0.5;             // max_mdf
  static constexpr Duration kScaling = microseconds(100);  // fs_range: more for a small window, up to so much
  static constexpr double kScaledLeast = 0.1;              // fs_min_cwnd
  static constexpr double kScaledMost = 100;               // fs_max_cwnd
  // Ours.
  static constexpr double kWindowAtFirst = 10;  // behind the first round trip: as TCP's (RFC 6928)
  static constexpr double kWindowMost = 256;    // packets that a queue pair may have unanswered
  static constexpr double kWindowLeast = 1.0 / 64;

  struct Options {
    Duration base = {};    // round trip of the longest path without queues; 0: measured
    Duration target = {};  // base target: the delay by queues, above the base
  };
  explicit Swift(const Options& options) : options_(options) {}

  void path_changed(uint32_t mtu) override;
  void window_filled() override { filled_ = true; }
  void acknowledged(Duration round_trip, Instant now) override;
  void timed_out(Instant now) override;
  void shift(Duration by) override { uroce::shift(by, decreased_at_, based_at_); }

  /// In packets, a fraction too.
  [[nodiscard]] double packets() const { return window_; }
  /// The round trip that is aimed at now; 0: none is known.
  [[nodiscard]] Duration target() const;

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

  void measured(Instant now);
  void measured_late(Duration target, Instant now);
  void measured_drained(Instant now);
  void grow();
  void drain();
  void decide();
  [[nodiscard]] bool is_base_old(Instant now) const;
  [[nodiscard]] bool decrease(double factor, Instant now);

  const Options options_;
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
