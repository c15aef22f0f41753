#pragma once

#include <cstdint>
#include <string>

#include "base/values/time.h"
#include "qp/congestion/options.h"
#include "queue/work_request.h"

namespace uroce::sim {

/// Eight hosts WRITE 64 KiB messages to a ninth, or are READ from by it, all through one port of a switch,
/// with links of 25 Gbit/s and a round trip of 10 us.
struct IncastOptions {
  qp::CongestionOptions congestion = {};
  Duration warm_up = milliseconds(10);
  Duration length = milliseconds(20);  // that is measured, behind the warm-up
  Duration apart{};                    // in which one host after the other begins
  queue::SendOperation operation = queue::SendOperation::kWrite;
  uint64_t seed = 1;
};

struct Incast {
  double share = 0;  // of what the link carries
  double jain = 0;   // 1: all flows got the same
  double queue_p99_kb = 0;
  uint64_t marked = 0;  // packets, by the switch
  uint64_t lost = 0;
  uint64_t sent_again = 0;
  // In the warm-up:
  uint64_t lost_before = 0;
  uint64_t sent_again_before = 0;
  uint64_t cnps = 0;  // with it
};

/// In virtual time. Throws when a connection breaks.
Incast measure_incast(const IncastOptions& options);
std::string text_of(const Incast& incast);

}  // namespace uroce::sim
