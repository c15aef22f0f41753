#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "client/verbs_objects.h"

namespace uroce::client {

/// Which device an end uses.
struct DeviceChoice {
  std::string name;  // empty: the first
  uint8_t port = 1;
  std::optional<uint32_t>
      gid_index;  // default: the first RoCE v2 GID of an IPv4 address, else of any address
};

/// Names of all devices, in the library's order. Throws Failure when there are none.
std::vector<std::string> device_names();

/// An opened device, its port and the GID that it speaks from.
struct VerbsDevice {
  std::string name;
  Context context;
  uint8_t port = 1;
  uint32_t gid_index = 0;
  ibv_gid gid{};
  ibv_device_attr limits{};
  [[nodiscard]] bool has_atomics() const { return limits.atomic_cap != IBV_ATOMIC_NONE; }
  ibv_port_attr port_attributes{};

  /// Throws Failure.
  static VerbsDevice open(const DeviceChoice& choice);

  /// A link may come up only when its other end opens. Throws Failure when it does not within 10 s.
  void wait_until_active();

 private:
  void query_port();
};

/// "10.0.0.1" or "fe80::1".
std::string text_of(const ibv_gid& gid);

constexpr uint32_t bytes_of(ibv_mtu mtu) { return 128u << static_cast<unsigned>(mtu); }
/// 256, 512 .. 4096 only.
constexpr std::optional<ibv_mtu> path_mtu_of(uint32_t bytes) {
  for (const ibv_mtu mtu : {IBV_MTU_256, IBV_MTU_512, IBV_MTU_1024, IBV_MTU_2048, IBV_MTU_4096}) {
    if (bytes_of(mtu) == bytes) return mtu;
  }
  return std::nullopt;
}

}  // namespace uroce::client
