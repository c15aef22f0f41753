#pragma once

#include <string>

#include "wire/cm_message.h"

namespace uroce::decode {

/// "CM REQ local=0x1f rc qp 0x000011 psn 0x00000c service=0x1061d0b path-mtu=3 ...": a message, for people.
std::string to_text(const wire::CmMad& mad);

}  // namespace uroce::decode
