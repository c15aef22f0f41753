#pragma once

#include <cstdint>

namespace uroce::qp {

/// How a queue pair takes part in congestion control.
struct CongestionOptions {
  uint32_t cnp_interval_us = 50;  // between two CNPs of a queue pair; 0: it sends none
  uint8_t cnp_dscp = 48;

  [[nodiscard]] bool operator==(const CongestionOptions&) const = default;
};

}  // namespace uroce::qp
