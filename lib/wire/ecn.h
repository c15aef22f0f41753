#pragma once

#include <cstdint>

// Explicit congestion notification: the two low bits of an IPv4 type of service or IPv6 traffic class
// (RFC 3168, section 5). A sender says there whether it heeds marks, and the network marks packets. So these
// bits of a received packet say nothing about the answer to it: whatever takes over a received traffic class
// takes the DSCP alone, without_ecn().
namespace uroce::wire {

inline constexpr uint8_t kEcnMask = 3;
inline constexpr uint8_t kEct0 = 2;              // the sender heeds marks
inline constexpr uint8_t kCongestionMarked = 3;  // CE, which only the network says

constexpr uint8_t ecn_of(uint8_t traffic_class) { return traffic_class & kEcnMask; }
constexpr uint8_t without_ecn(uint8_t traffic_class) {
  return static_cast<uint8_t>(traffic_class & ~kEcnMask);
}

}  // namespace uroce::wire
