#pragma once

#include <algorithm>
#include <cstdint>

#include "base/counters/latencies.h"
#include "base/values/sequence_number.h"
#include "base/values/time.h"

namespace uroce::qp {

/// How long the peer takes to answer, one sample at a time, as TCP estimates it (RFC 6298, section 2).
class RttEstimator {
 public:
  void reset() { *this = {}; }

  /// The packets from `first` to before `end` have just gone out for the first time, and are timed unless
  /// others are already. True: their time is to be shown, if it is measured.
  bool begin(Psn first, Psn end, Instant now) {
    if (timing_) return false;
    timing_ = true;
    first_ = first;
    end_ = end;
    begin_ = now;
    return shows_ = samples_ % kPerShown == 0;
  }
  /// Whether packets are timed.
  [[nodiscard]] bool timing() const { return timing_; }
  /// Times no more than the first `packets` of the packets that are timed.
  void shorten(uint32_t packets) {
    if (end_.after(first_ + packets)) end_ = first_ + packets;
  }
  /// Nothing is timed any more: its answer may come much later than that to a packet that is not lost.
  void cancel() { timing_ = false; }
  /// All before `oldest` is answered. True: newest() is the time that begin() said is to be shown.
  bool answered(Psn oldest, Instant now) {
    if (!timing_) return false;
    if (oldest.before(end_)) {
      // A part of what is timed, or what went before, is answered: that took no longer than this.
      const Duration most = now - begin_;
      if (first_patience_ns_ == kUnknownNs) [[unlikely]]
        first_patience_ns_ = patience_of(kRoundTrips * most.ns);
      if (most.ns < least_ns_ && oldest.after(first_)) [[unlikely]]
        least_ns_ = static_cast<uint32_t>(most.ns);
      return false;
    }
    timing_ = false;
    take(now - begin_);
    return shows_;
  }

  /// Takes in how long an answer has taken.
  void take(Duration sample) {
    const auto ns = static_cast<uint32_t>(std::clamp<int64_t>(sample.ns, 1, kUnknownNs));
    newest_ns_ = ns;
    ++samples_;
    least_ns_ = std::min(least_ns_, ns);
    int64_t smoothed = smoothed_ns_;
    int64_t variation = variation_ns_;
    if (smoothed == 0) {
      smoothed = ns;
      // RFC 6298 begins with a half; with a quarter the first wait is as long as later ones.
      variation = ns / 4;
    } else {
      // Nothing here is negative: a shift divides.
      const int64_t off = std::max(smoothed - ns, ns - smoothed);
      variation = (3 * variation + off) >> 2;
      smoothed = (7 * smoothed + ns) >> 3;
    }
    smoothed_ns_ = static_cast<uint32_t>(smoothed);
    variation_ns_ = static_cast<uint32_t>(variation);
    patience_ns_ = patience_of(std::max(kRoundTrips * smoothed, smoothed + kVariations * variation));
  }

  /// What times are that are not known.
  static constexpr Duration kUnknown{UINT32_MAX};
  /// After so long an answer is missing; kUnknown as long as none has come.
  [[nodiscard]] Duration patience() const { return {patience_ns_}; }
  /// patience(), or what a part of the first burst, which was answered, tells of it.
  [[nodiscard]] Duration tail_patience() const {
    return {patience_ns_ != kUnknownNs ? patience_ns_ : first_patience_ns_};
  }
  /// The shortest patience before anything was answered.
  static constexpr Duration kPatienceFirst = milliseconds(1);
  /// How many answers were timed, modulo 2^32.
  [[nodiscard]] uint32_t samples() const { return samples_; }
  /// How long the last one took; 0: there was none.
  [[nodiscard]] Duration newest() const { return {newest_ns_}; }
  [[nodiscard]] Duration smoothed() const { return {smoothed_ns_}; }
  /// No longer than any so far, and than what parts of bursts have taken; 0: none.
  [[nodiscard]] Duration least() const { return {least_ns_ == kUnknownNs ? 0 : least_ns_}; }

  /// Moments are on a clock that shows `by` more from now on.
  void shift(Duration by) { uroce::shift(by, begin_); }

 private:
  // An answer that is twice as late as usual is missing, as for TCP's tail loss probe (RFC 8985,
  // section 7.2), unless answers vary more. The least is what a thread may be off its CPU for.
  static constexpr Duration kPatienceLeast = microseconds(100);
  static constexpr Duration kPatienceMost = seconds(4);
  static constexpr int64_t kRoundTrips = 2;
  static constexpr uint32_t kPerShown = texts_of(Latency::kSendToAck).sampled_of;
  static constexpr int64_t kVariations = 4;

  static uint32_t patience_of(int64_t ns) {
    return static_cast<uint32_t>(std::clamp(ns, kPatienceLeast.ns, kPatienceMost.ns));
  }

  // Longer times count as so long.
  static constexpr uint32_t kUnknownNs = UINT32_MAX;
  static_assert(kUnknown.ns == kUnknownNs && kPatienceMost.ns < kUnknownNs);

  Instant begin_{};
  Psn first_;
  Psn end_;
  uint32_t smoothed_ns_ = 0;  // no sample yet
  uint32_t variation_ns_ = 0;
  uint32_t least_ns_ = kUnknownNs;
  uint32_t newest_ns_ = 0;
  uint32_t samples_ = 0;
  uint32_t patience_ns_ = kUnknownNs;
  uint32_t first_patience_ns_ = kUnknownNs;
  bool timing_ = false;
  bool shows_ = false;  // what is timed
};

}  // namespace uroce::qp
