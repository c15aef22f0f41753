#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <variant>

#include "net/gid_table.h"
#include "service/client_session.h"
#include "service/number_owners.h"
#include "wire/packet.h"

namespace uroce::service {

/// Where a program's frame goes.
enum class Way : uint8_t { kUplink, kGroup, kSelf };

/// What frames of programs are checked against.
struct Identity {
  MacAddress mac;
  net::GidTable gids;
};

/// The program that sends a frame, among all that share the device.
struct Sender {
  const ClientSession& program;
  const NumberOwners& owners;
};

/// Parses a frame of the program, which nothing changes any more, and says where it goes; or why it goes
/// nowhere: it does not bear the device's MAC and one of its addresses as its source, is not RoCE, or names a
/// queue pair or a connection of another program as its sender. A message of the communication manager may
/// name a queue pair of no program, as on hardware. Packets of connected
/// services do not name their sender: a program can send such packets to a queue pair at the far end that is
/// connected to another program of the same device, if it knows or guesses both number and PSN.
std::variant<Way, Drop> check_outgoing(std::span<const std::byte> frame, const Identity& device,
                                       const Sender& sender, wire::Packet& packet);

}  // namespace uroce::service
