#pragma once

#include <infiniband/verbs.h>

namespace uroce {

/// One fact that verbs have no words for. The texts live until the return.
using PortFactSink = void (*)(void* to, const char* name, const char* value);

extern "C" {

/// What a port can carry and why, for `uroce info`: calls `sink` for each fact. 0, or EIO or EINVAL. Exported
/// by the stack itself and by no face, so its users look it up: the verbs in use may be another library's.
int uroce_port_facts(ibv_context* context, uint8_t port, PortFactSink sink, void* to);
}

}  // namespace uroce
