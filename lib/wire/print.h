#pragma once

#include <string>

#include "wire/packet.h"

namespace uroce::wire {

/// One line about a parsed packet, for people: opcode, addresses, destination QP, PSN (in hexadecimal, as
/// captures are read), flags, the extension headers that it has, payload bytes. Not for the packet path.
///
///   RC WRITE First 198.51.100.1 > 198.51.100.2 qp 0x000011 psn 0x00000c A reth va=0x1000 rkey=0x00000203
///   len=2048 + 1024
std::string to_text(const Packet& packet);

/// "ack credits=31", "rnr-nak timer=18", "nak remote-access": what an AETH says, without the MSN.
std::string to_text(const Aeth& aeth);

}  // namespace uroce::wire
