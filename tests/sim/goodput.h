#pragma once

#include <cstdint>

#include "base/values/time.h"
#include "qp/congestion/options.h"
#include "queue/work_queue.h"

namespace uroce::sim {

/// One queue pair that WRITEs or READs messages over a link of 25 Gbit/s, or more, with a path MTU of
/// 4096, 64 WRITEs or 16 READs at a time, with an ACK timeout of 67 ms. Both directions lose packets
/// independently of each other.
struct GoodputOptions {
  uint64_t loss = 0;            // of 100,000 packets
  uint64_t reordering = 0;      // likewise: packets that are late by up to 64 others
  uint32_t link_gigabits = 25;  // per second
  Duration round_trip = microseconds(100);
  uint64_t seed = 1;
  uint32_t messages = 1000;
  uint32_t bytes = 64 << 10;  // of each
  queue::SendOperation operation = queue::SendOperation::kWrite;
  qp::CongestionOptions congestion = {};
  bool selective_repeat = true;  // else both ends go back N packets
};

struct Goodput {
  double gigabits_per_second = 0;  // of payload that was delivered once
  uint64_t packets = 0;
  uint64_t sent_again = 0;  // of them
  uint64_t ack_timeouts = 0;
};

/// In virtual time. Throws when the connection breaks or bytes are not what was written.
Goodput measure_goodput(const GoodputOptions& options);

}  // namespace uroce::sim
