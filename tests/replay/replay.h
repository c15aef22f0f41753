#pragma once

#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "conversation.h"
#include "messages.h"
#include "queue/completion_queue.h"

namespace uroce::replay {

/// What happened while an end was played, in order.
struct Event {
  Instant time;
  bool fed = false;  // else sent by us
  const Packet* packet = nullptr;
  size_t sends_completed = 0;  // altogether, right after it
};

struct Record {
  std::deque<Packet> sent;
  std::vector<Event> events;
  std::vector<queue::Completion> sends;
  std::vector<queue::Completion> receives;
  Duration ack_timeout;
};

/// Faults that our end is made to have, to show that the replay notices them.
struct PlantedFaults {
  /// Changes a frame that we sent; one that is left empty was never sent.
  std::function<void(Packet&)> frame = [](Packet&) {};
  bool memory = false;
};

/// Plays one end of a captured connection with our stack: feeds it what the other end sent, when it did, lets
/// it ask for what was asked for, and compares. What differs, one text each; empty when all is well.
std::vector<std::string> replay(const Conversation& conversation, size_t ours,
                                const PlantedFaults& faults = {});

}  // namespace uroce::replay
