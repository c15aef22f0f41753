#include "drivers/port/loopback/wire.h"

#include <algorithm>

namespace uroce::drivers {

void Lane::make_rings() {
  for (uint16_t receiver = 0; receiver < receivers_made_; ++receiver) {
    for (uint16_t sender = 0; sender < senders_made_; ++sender) {
      auto& ring = rings_[receiver][sender];
      if (ring == nullptr) ring = std::make_unique<Ring>(kRingFrames);
    }
  }
}

void Lane::send_from(uint16_t queues) {
  senders_made_ = std::max(senders_made_, queues);
  make_rings();
  senders_.store(senders_made_, std::memory_order_release);  // pairs with the acquire in senders()
}

void Lane::listen(uint16_t queues) {
  receivers_made_ = std::max(receivers_made_, queues);
  make_rings();
  if (queues == 0) receivers_.store(0, std::memory_order_release);  // pairs with the acquire in receivers()
  drain();
  if (queues != 0)
    receivers_.store(queues, std::memory_order_release);  // pairs with the acquire in receivers()
}

void Lane::drain() {
  // No receiving poller exists at this moment, so this thread is every ring's consumer. A sender that saw the
  // far end open a moment ago may still add a burst; the next drain finds it.
  for (uint16_t receiver = 0; receiver < receivers_made_; ++receiver) {
    for (uint16_t sender = 0; sender < senders_made_; ++sender) {
      FrameInFlight frame;
      while (ring(receiver, sender).pop(frame)) frame.buffer->home->give_back(frame.buffer, frame.buffer);
    }
  }
}

}  // namespace uroce::drivers
