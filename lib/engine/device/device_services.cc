#include <cerrno>
#include <random>

#include "engine/device/device.h"
#include "engine/device/device_state.h"
#include "engine/platform/forked.h"

namespace uroce::engine {

int Device::manage(ServicesUser& user, const std::function<void(GeneralServices&, Instant now)>& function) {
  DeviceState& state = *state_;
  if (forked_since_start()) return ENODEV;
  Poller& poller = *state.pollers[0];
  {
    const std::lock_guard guard(state.mutex);
    if (state.services == nullptr) {
      state.services = std::make_unique<GeneralServices>(
          GeneralServices::Options{
              .mac = state.mac,
              .addresses = state.addresses,
              .links = state.links,
              .source_ports = state.configuration.source_ports,
              .agent = {.connections_max = Limits::kConnections, .salt = std::random_device{}()}},
          user);
    }
  }
  const bool ran = poller.run([&](qp::Turn& turn) {
    poller.attend(state.services.get());
    function(*state.services, turn.now);
  });
  return ran ? 0 : ENODEV;
}

}  // namespace uroce::engine
