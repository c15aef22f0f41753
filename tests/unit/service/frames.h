#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/values/identifiers.h"
#include "wire/cm_message.h"
#include "wire/frame.h"

namespace uroce::testing {

using Bytes = std::vector<std::byte>;

inline constexpr MacAddress kDeviceMac{{0x02, 0, 0, 0, 0, 1}};
inline constexpr Gid kDeviceAddress = Gid::from_ipv4({192, 0, 2, 1});
inline constexpr MacAddress kPeerMac{{0x02, 0, 0, 0, 9, 1}};
inline constexpr Gid kPeerAddress = Gid::from_ipv4({192, 0, 2, 9});

/// From the peer to the device, and from the device to the peer or to itself.
wire::Path from_peer();
wire::Path to_peer();
wire::Path to_self();

/// A SEND of `payload_bytes` with a right ICRC: of RC, or of UD with the number of its sender.
Bytes rc_frame(const wire::Path& path, QpNumber to, uint32_t payload_bytes = 64);
Bytes ud_frame(const wire::Path& path, QpNumber from, QpNumber to, uint32_t payload_bytes = 64);
/// A message of the communication manager to queue pair 1.
Bytes cm_frame(const wire::Path& path, const wire::CmMessage& message);

}  // namespace uroce::testing
