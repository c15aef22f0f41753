#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/values/identifiers.h"
#include "wire/cm_message.h"

// What rdma_cm puts on top of the communication manager (lib/README.md, wire fact 10).
namespace uroce::wire {

/// Port spaces as rdma_user_cm.h of Linux numbers them.
enum class PortSpace : uint16_t { kIpoib = 0x0002, kTcp = 0x0106, kUdp = 0x0111, kIb = 0x013F };

constexpr ServiceId service_of(PortSpace space, uint16_t port) {
  return {static_cast<uint64_t>(space) << 16 | port};
}

/// The Q_Key of UD with rdma_cm, unless another was agreed upon.
inline constexpr uint32_t kRdmaUdpQkey = 0x0123'4567;

inline constexpr size_t kIpCmBytes = 36;

/// The first bytes of the private data of REQ and SIDR_REQ: addresses and port of both ends.
struct IpCmHeader {
  bool ipv4 = false;
  uint16_t source_port = 0;
  Gid source;  // IPv4 as ::ffff:a.b.c.d
  Gid destination;
};

/// Null when the version is none that we know; `data` are kIpCmBytes at least.
std::optional<IpCmHeader> parse_ip_cm(std::span<const std::byte> data);
void write_ip_cm(std::byte* to, const IpCmHeader& header);

}  // namespace uroce::wire
