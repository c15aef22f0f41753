#pragma once

#include <cstdint>

#include "base/values/identifiers.h"
#include "choices.h"
#include "tests/unit/net/membership_messages.h"

namespace uroce::fuzz {

using uroce::testing::Frame;

// The device that frames come to. Its addresses end in 1; that in_vlan() is in kVlan.
inline constexpr MacAddress kMac{{2, 0, 0, 0, 0, 1}};
inline constexpr uint16_t kVlan = 7;

inline Gid ipv4(uint32_t last) { return Gid::from_ipv4({192, 0, 2, static_cast<uint8_t>(last)}); }
inline Gid ipv6(uint32_t last) {
  Gid gid;
  gid.bytes = {0x20, 0x01, 0x0D, 0xB8};
  gid.bytes[15] = static_cast<uint8_t>(last);
  return gid;
}
inline Gid in_vlan(uint32_t last) { return Gid::from_ipv4({198, 51, 100, static_cast<uint8_t>(last)}); }
/// ff0e::1:2, which the queries of membership_messages.h are about.
inline Gid ipv6_group() {
  Gid group;
  group.bytes = {0xFF, 0x0E, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 2};
  return group;
}

/// Frames of peers on the device's link, most of them nearly right.
class PortFrames {
 public:
  explicit PortFrames(Choices& choices) : choices_(choices) {}

  Frame any_frame();
  /// Changes the frame a little.
  void spoil(Frame& frame);
  [[nodiscard]] uint32_t any_host() {
    return choices_.below(4) == 0 ? 1 + choices_.below(255) : 1 + choices_.below(20);
  }

 private:
  Frame any_arp();
  Frame any_discovery();
  Frame any_roce();
  Frame any_echo();
  Frame any_query();
  [[nodiscard]] MacAddress any_mac() {
    if (choices_.once_in(16))
      return choices_.once_in(2) ? kMac : MacAddress{{0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF}};
    return {{2, 1, 0, 0, 0, static_cast<uint8_t>(choices_.below(256))}};
  }
  [[nodiscard]] MacAddress to_us() { return choices_.once_in(16) ? any_mac() : kMac; }

  Choices& choices_;
};

}  // namespace uroce::fuzz
