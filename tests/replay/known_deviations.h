#pragma once

#include "conversation.h"
#include "messages.h"

namespace uroce::replay {

/// A captured answer as the standard asks for it (known_deviations.txt), and as it is when the operations
/// that this stack does not have were never asked for: its MSN does not count them.
Packet by_the_standard(const Conversation& conversation, const Packet& answer, const Requests& requests);

}  // namespace uroce::replay
