#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/counters/counters.h"
#include "base/values/identifiers.h"
#include "net/gid_table.h"
#include "wire/packet.h"

namespace uroce::net {

enum class FrameKind : uint8_t {
  kRoce,       // for us; the packet is filled, its ICRC not yet checked
  kGroup,      // the same for members of a multicast group, should there be any
  kNeighbour,  // ARP or neighbour discovery, unchecked: for Neighbours::receive()
  kQuery,      // of a router about multicast groups, unchecked: for Links::receive_query()
  kEcho,       // an echo request to our MAC, unchecked: for echo_reply()
  kDropped,    // `reason` says why
};

struct Classified {
  FrameKind kind = FrameKind::kDropped;
  Counter reason = Counter::kRxNotRoce;  // the counter of a drop
};

/// Says once what a received frame is. A tagged frame is for the addresses of its VLAN; a tag without a VLAN,
/// that has only a priority, counts as none. RoCE is for us when it came to our MAC and to one of our GIDs,
/// or for a group when it came to the group's MAC and to the number that stands for members; only then is it
/// worth an ICRC, which is left to the poller that performs the packet (frames are handed over before that).
class Demux {
 public:
  /// The queue pair number in packets to a group.
  static constexpr QpNumber kMembers{0xFFFFFF};

  /// `beside_kernel`: whatever is not RoCE is the kernel's.
  Demux(MacAddress mac, const GidTable& gids, bool beside_kernel = false)
      : mac_(mac), gids_(gids), beside_kernel_(beside_kernel) {}

  /// Reads no byte outside `frame`.
  [[nodiscard]] Classified classify(std::span<const std::byte> frame, wire::Packet& packet) const;

 private:
  [[nodiscard]] Classified classify_roce(const wire::Packet& packet, uint16_t vlan) const;

  const MacAddress mac_;
  const GidTable& gids_;
  const bool beside_kernel_;
};

}  // namespace uroce::net
