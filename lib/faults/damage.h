#pragma once

#include <cstddef>
#include <cstdint>

#include "port/port.h"
#include "wire/packet.h"

// What faults do to the bytes of a frame, all of which is in memory. `packet` is what was parsed of it.
namespace uroce::faults {

/// Turns one bit behind the BTH over, the `which`-th, modulo their number. The ICRC, which is computed before
/// if there is none, does not match any more.
void corrupt(port::RxFrame& frame, const wire::Packet& packet, uint64_t which);

/// Congestion experienced, in the IP header. The ICRC does not cover that.
void mark_congestion(port::RxFrame& frame, const wire::Packet& packet);

/// The packet may be performed as far as its ICRC says.
bool is_intact(const port::RxFrame& frame, const wire::Packet& packet);

/// Gives the frame an ICRC that is wrong in every bit.
void spoil_icrc(port::RxFrame& frame, const wire::Packet& packet);

}  // namespace uroce::faults
