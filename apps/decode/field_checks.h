#pragma once

#include "apps/decode/rules.h"
#include "wire/packet.h"

namespace uroce::decode {

/// Adds what fields of a packet break by themselves. Of one that the capture has cut, its headers alone
/// count.
void check_fields(const wire::Packet& packet, bool cut, Findings& findings);

}  // namespace uroce::decode
