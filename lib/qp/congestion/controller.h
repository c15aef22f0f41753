#pragma once

#include <cstdint>
#include <memory>

#include "base/time.h"
#include "qp/congestion/algorithm.h"
#include "qp/congestion/options.h"
#include "qp/congestion/pacer.h"

namespace uroce::qp {

/// What a connection has seen of its path so far.
struct PathStatistics {
  uint32_t samples = 0;   // round trips, modulo 2^32, ...
  Duration round_trip{};  // ... the newest of them
  uint32_t timeouts = 0;  // likewise: answers that did not come
};

/// Congestion control of one connection: events in; out come how many packets may be unanswered, and when the
/// next one may leave. The algorithm has memory from choose() on, and "none" has no memory and no cost but a
/// test for null. Called by its poller alone; choose() alone allocates.
class CongestionController {
 public:
  /// The algorithm of `options` is made, or none for kNone, and takes the place of the one before. False:
  /// there is no memory, and nothing has changed.
  [[nodiscard]] bool choose(const CongestionOptions& options);
  /// Nothing is held back any more, and no CNP has come.
  void reset() {
    cnps_ = 0;
    flow_.reset();
  }

  // Events.

  /// The connection begins to send, after choose(), or with another algorithm. `path`: seen of it before.
  void path_changed(uint32_t mtu, const PathStatistics& path);
  /// A CNP came. `port_mbps`: speed of the port's link; 0: unknown.
  void cnp(uint32_t port_mbps, Instant now);
  /// While limits(): acknowledgements and timeouts since the last call.
  void observe(const PathStatistics& path, Instant now);
  /// While limits(): the requester stopped because window() packets are unanswered.
  void window_filled() { flow_->algorithm->window_filled(); }
  /// While limits(): a packet left.
  void sent(uint32_t bytes);
  /// What waited until deadline() is asked for again.
  void expire(Instant now) {
    if (flow_ != nullptr) flow_->pacer.expire(now);
  }
  /// Moments are on a clock that shows `by` more from now on.
  void shift(Duration by);

  // Answers.

  /// Packets are held back: ask window() and may_send() before each, and tell sent().
  [[nodiscard]] bool limits() const { return flow_ != nullptr && flow_->algorithm->limits(); }
  /// Responses to READs, too. They are not answered, so that an algorithm by answers limits requests alone.
  [[nodiscard]] bool limits_responses() const { return limits() && !flow_->by_answers; }
  [[nodiscard]] uint32_t window() const { return flow_ != nullptr ? flow_->algorithm->window() : UINT32_MAX; }
  /// In Mbit/s; 0: time holds nothing back.
  [[nodiscard]] double mbps() const { return flow_ != nullptr ? flow_->algorithm->mbps() : 0; }
  /// While limits(): one more packet may leave now. False: at deadline().
  [[nodiscard]] bool may_send(Instant now);
  /// The earliest time of the packet that waits; kNever: none does.
  [[nodiscard]] Instant deadline() const { return flow_ != nullptr ? flow_->pacer.deadline() : kNever; }
  /// CNPs that came, whatever the algorithm, modulo 2^32.
  [[nodiscard]] uint32_t cnps() const { return cnps_; }

 private:
  struct Flow {
    std::unique_ptr<CongestionAlgorithm> algorithm;  // never null
    bool by_answers = false;
    Pacer pacer = {};
    // Of PathStatistics, that were told.
    uint32_t samples = 0;
    uint32_t timeouts = 0;
  };

  std::unique_ptr<Flow> flow_;
  uint32_t cnps_ = 0;
};

}  // namespace uroce::qp
