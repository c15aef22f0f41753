#pragma once

#include <string>
#include <vector>

#include "messages.h"
#include "replay.h"

namespace uroce::replay {

/// Judges in which order our requester sent, whatever the kernel did: packets follow each other, and it goes
/// back only to the oldest one that is unanswered, only for a reason (a NAK, an answer that shows a hole,
/// time), not before the time that an RNR NAK names, and at once after a sequence NAK. That one may go alone;
/// then an answer that acknowledges nothing behind it is another reason, and so is some time without one.
std::vector<std::string> judge_recovery(const Requests& own, uint32_t mtu, const Record& record);

}  // namespace uroce::replay
