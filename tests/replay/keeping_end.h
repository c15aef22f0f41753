#pragma once

#include <optional>
#include <string>

#include "messages.h"
#include "replay.h"

namespace uroce::replay {

/// The standard allows an end to keep requests that came early, and to say nothing to what comes again
/// without asking for an ACK. Ours does both, the kernel nothing. What is kept of the kernel, which goes back
/// to what a NAK names, counts when it, or a request behind it, comes once more. Our ACKs and sequence NAKs
/// then follow from the order in which requests came alone. nullopt: they are the kernel's, or the peer was
/// refused something. Else what is wrong with those in `record`, or an empty text.
std::optional<std::string> judge_acknowledgements_of_a_keeping_end(const Requests& peers,
                                                                   const Record& record);

}  // namespace uroce::replay
