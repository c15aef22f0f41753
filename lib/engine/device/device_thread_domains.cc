// Thread domains: one poller for all that one thread of the application uses.
//
// Decision: a thread domain binds its queue pairs to one poller, so that two threads never turn each other's
// poller. The locks of the verbs stay.
#include <algorithm>

#include "engine/device/device.h"
#include "engine/device/device_state.h"

namespace uroce::engine {

ThreadDomain Device::take_thread_domain() {
  DeviceState& state = *state_;
  const std::lock_guard guard(state.mutex);
  // Each has a poller to itself while there are enough; among equals, the one with the fewest queue pairs.
  uint16_t best = 0;
  for (uint16_t i = 1; i < state.pollers.size(); ++i) {
    const auto burden = [&](uint16_t of) { return std::pair(state.thread_domains[of], state.load[of]); };
    if (burden(i) < burden(best)) best = i;
  }
  ++state.thread_domains[best];
  return {best};
}

void Device::give_back_thread_domain(ThreadDomain domain) {
  const std::lock_guard guard(state_->mutex);
  --state_->thread_domains[domain.poller];
}

void Device::bind(queue::CompletionQueue& queue, ThreadDomain domain) { queue.use_lane(domain.poller); }

void Device::bind(SharedReceives& receives, ThreadDomain domain) {
  const std::lock_guard guard(state_->mutex);
  receives.poller = state_->pollers[domain.poller].get();
}

}  // namespace uroce::engine
