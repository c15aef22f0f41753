#pragma once

#include <cstdint>

namespace uroce::qp {

/// What decides how fast a queue pair sends.
enum class CongestionControl : uint8_t {
  kNone,   // the window alone
  kDcqcn,  // the CNPs of the peer (dcqcn.h)
  kSwift,  // how long the peer's answers take (swift.h)
};

/// Parameters of DCQCN, with the names and values of its paper (lib/README.md, wire fact 13).
struct DcqcnOptions {
  uint32_t line_mbps = 100'000;  // R_C and R_T at the first CNP; a rate that reaches it is no limit any more
  bool line_of_port = true;      // takes the place of line_mbps at the next CNP, where the port knows it
  uint32_t least_mbps = 10;
  uint32_t additive_mbps = 40;    // R_AI
  uint32_t hyper_mbps = 400;      // R_HAI
  uint32_t gain_shift = 8;        // g is 1/2^gain_shift
  uint32_t alpha_us = 55;         // without a CNP for so long, alpha decreases
  uint32_t increase_us = 55;      // T
  uint32_t increase_kib = 10240;  // B
  uint32_t recovery_stages = 5;   // F

  [[nodiscard]] bool operator==(const DcqcnOptions&) const = default;
};

/// Parameters of Swift, with the names and values of its paper (swift.h). The target is above the shortest
/// round trip, which is the path's own.
struct SwiftOptions {
  uint32_t base_us = 0;             // the longest path's round trip without queues; 0: measured
  uint32_t target_us = 50;          // base target, but for that
  uint32_t scaling_us = 100;        // fs_range: more for a small window, up to so much
  uint32_t increase_percent = 100;  // ai, of a packet in a round trip
  uint32_t beta_percent = 80;       // of what is beyond the target, in a decrease
  uint32_t decrease_percent = 50;   // max_mdf: no decrease is by more

  [[nodiscard]] bool operator==(const SwiftOptions&) const = default;
};

struct CongestionOptions {
  CongestionControl control = CongestionControl::kNone;
  uint32_t cnp_interval_us = 50;  // N: between two CNPs of a queue pair; 0: it sends none
  uint8_t cnp_dscp = 48;
  DcqcnOptions dcqcn = {};
  SwiftOptions swift = {};

  [[nodiscard]] bool operator==(const CongestionOptions&) const = default;
};

/// What congestion control makes of one queue pair, now.
struct CongestionState {
  CongestionControl control = CongestionControl::kNone;
  uint32_t window = 0;  // packets that may be unanswered; 0: of a service without answers
  double mbps = 0;      // 0: no rate limits it
  uint64_t cnps = 0;    // that came
  // Round trips; 0: none was measured.
  int64_t smoothed_ns = 0;
  int64_t least_ns = 0;
};

}  // namespace uroce::qp
