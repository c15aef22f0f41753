#pragma once

#include <cstdint>
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
  bool settled = false;        // fed, and not followed by more in the same burst
  size_t sends_completed = 0;  // altogether, when it had settled
};

struct Record {
  std::deque<Packet> sent;
  std::deque<Event> events;
  std::vector<queue::Completion> sends;
  std::vector<queue::Completion> receives;
  Duration ack_timeout;
};

/// How packets of the other end that follow each other in the capture arrive.
enum class Arrival : uint8_t {
  kOneByOne,
  kInBursts,  // together, and what they ask for may be answered together
};

/// Faults that our end is made to have, to show that the replay notices them.
struct PlantedFaults {
  /// Changes a frame that we sent; one that is left empty was never sent.
  std::function<void(Packet&)> frame = [](Packet&) {};
  bool memory = false;
};

/// Plays one end of a captured connection with our stack: feeds it what the other end sent, when it did, lets
/// it ask for what was asked for, and compares. What differs, one text each; empty when all is well.
std::vector<std::string> replay(const Conversation& conversation, size_t ours, Arrival arrival,
                                const PlantedFaults& faults = {});

}  // namespace uroce::replay
