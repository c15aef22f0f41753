#include <algorithm>
#include <cerrno>
#include <random>

#include "engine/device/device.h"
#include "engine/device/device_state.h"
#include "host/shared_device.h"

namespace uroce::engine {
namespace {

/// Where programs share a device, the numbers of connections begin with what is of this program's queue pair
/// numbers only: so the service knows for which program a message is.
cm::AgentOptions agent_options(uint64_t guid, host::SharedDevice* shared) {
  std::random_device random;
  const auto word = [&] { return uint64_t{random()} << 32 | random(); };
  cm::AgentOptions options{.ca_guid = guid,
                           .connections_max = Limits::kConnections,
                           .salt = random(),
                           .first_number = random(),
                           .transactions = {.low = word(), .high = word()}};
  if (shared == nullptr) return options;
  options.rows = shared->connection_rows();
  options.prefix = {.value = host::comm_prefix(shared->numbers()), .bits = host::kCommPrefixBits};
  options.connections_max =
      std::min(options.connections_max, cm::ConnectionTable::capacity_max(options.prefix));
  return options;
}

}  // namespace

int Device::manage(ServicesUser& user, const std::function<void(Gsi&, Instant now)>& function) {
  DeviceState& state = *state_;
  if (state.inherited()) return ENODEV;
  Poller& poller = *state.pollers[0];
  {
    const std::lock_guard guard(state.mutex);
    if (state.services == nullptr) {
      host::SharedDevice* const shared = state.port->shared_device();
      state.services = std::make_unique<Gsi>(Gsi::Options{.mac = state.mac,
                                                          .addresses = state.addresses,
                                                          .links = state.links,
                                                          .source_ports = state.configuration.source_ports,
                                                          .shared = shared != nullptr,
                                                          .agent = agent_options(guid(), shared)},
                                             user);
    }
  }
  const bool ran = poller.run([&](qp::Turn& turn) {
    poller.set_services(state.services.get());
    function(*state.services, turn.now);
  });
  return ran ? 0 : ENODEV;
}

}  // namespace uroce::engine
