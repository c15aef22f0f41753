#pragma once

#include <optional>
#include <string>
#include <vector>

#include "conversation.h"

// What the standard leaves to the sender of a packet. Frames are compared byte by byte, but for the allowed
// differences that are stated in allowed_differences.cc, each once with its reason.
namespace uroce::replay {

/// True when `ours` is what the kernel sent as `captured`, allowed differences apart.
bool same_packet(const Packet& ours, const Packet& captured);

/// True when `ours` asks for less of the READ that `captured` asks for, and differs in nothing else.
bool asks_for_part(const Packet& ours, const Packet& captured);

/// Packets of one kind (requests, or answers) that a capture shows and that we sent, in order: empty when
/// they are the same, else what differs. `part`: the capture may lack some of ours.
std::string compare(const std::vector<const Packet*>& captured, const std::vector<const Packet*>& ours,
                    bool part);

/// Of answers to packets that came together.
void leave_out_what_may_be_merged(std::vector<const Packet*>& answers);

/// The newest PSN that these answers leave answered; nullopt when there are none.
std::optional<Psn> newest_answered(const std::vector<const Packet*>& answers);

}  // namespace uroce::replay
