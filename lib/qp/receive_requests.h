#pragma once

#include <cstdint>
#include <span>

#include "queue/work_queue.h"

namespace uroce::qp {

/// Where a queue pair takes its receive work requests from, one for each message that needs one: from the
/// first packet of that message until it is reported, the request is the current one.
class ReceiveRequests {
 public:
  explicit ReceiveRequests(queue::ReceiveQueue& own) : own_(own) {}

  /// There is a current request, or one that can become it.
  [[nodiscard]] bool available() const { return waiting() != 0; }
  /// How many there are, the current one included.
  [[nodiscard]] uint32_t waiting() const { return own_.published() - own_.retired(); }

  // When available():
  [[nodiscard]] const queue::ReceiveRequest& current() const { return own_.at(own_.retired()); }
  [[nodiscard]] std::span<const queue::Segment> segments() const { return own_.segments(current()); }
  /// The current request is done with.
  void retire() { own_.retire(); }

 private:
  queue::ReceiveQueue& own_;
};

}  // namespace uroce::qp
