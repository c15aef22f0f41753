#include "virtual_pair.h"

#include "drivers/registry.h"
#include "engine/device/shared_network.h"
#include "engine/platform/eal.h"

namespace uroce::engine {

namespace {

Instant virtual_now{1'000'000'000};

/// Null when it cannot be opened, which has then been said.
std::unique_ptr<port::Port> open_end(const port::Specification& specification,
                                     const DeviceConfiguration& device) {
  auto port = drivers::open_port(specification);
  EXPECT_TRUE(port) << port.error().message;
  if (!port) return nullptr;
  (*port)->follow_addresses({{device.addresses[0].address}});
  return std::move(*port);
}

std::shared_ptr<Device> make_device(DeviceState*& state, const DeviceConfiguration& device,
                                    const Configuration& configuration, std::unique_ptr<port::Port> port,
                                    std::unique_ptr<copy::Engine> engine) {
  std::vector<std::unique_ptr<copy::Engine>> engines;
  if (engine != nullptr) engines.push_back(std::move(engine));
  host::SharedDevice* const shared = port->shared_device();
  auto made = std::make_unique<DeviceState>(DeviceState::Options{
      .device = device,
      .configuration = configuration,
      .port = std::move(port),
      .lcores = std::vector<uint32_t>(configuration.pollers_per_device, kNoLcore),
      .copy_engines = std::move(engines),
      .address_provider = shared != nullptr ? std::make_unique<SharedNetwork>(*shared) : nullptr,
      .numbers = shared != nullptr ? std::optional(shared->numbers()) : std::nullopt,
      .first_queue_pair = shared != nullptr ? shared->numbers().first : QueuePairTable::kFirstMin,
      .clock = &VirtualPair::now});
  state = made.get();
  return std::make_shared<Device>(std::move(made));
}

}  // namespace

VirtualPair::VirtualPair(const Options& options) {
  Configuration configuration = embedded_pair();
  configuration.poller_mode = PollerMode::kDedicated;  // and the threads are not started
  configuration.pollers_per_device = options.pollers;
  configuration.devices[0].port = "loopback100";
  configuration.devices[1].port = "loopback101" + options.right_arguments;
  for (size_t i = 0; i < 2; ++i) {
    // No thread turns the other end while a verbs call waits for an answer of it.
    configuration.devices[i].mac = mac(i);
    if (i == 1 || options.right_knows_left)
      configuration.devices[1 - i].neighbours = {{configuration.devices[i].addresses[0].address, mac(i)}};
  }
  std::unique_ptr<copy::LateEngine> engines[2];
  if (options.late_engines) {
    for (auto& engine : engines) engine = std::make_unique<copy::LateEngine>();
  }
  left_engine = engines[0].get();
  right_engine = engines[1].get();
  std::unique_ptr<port::Port> ports[2];
  for (size_t i = 0; i < 2; ++i) {
    port::Specification wire{.devargs = configuration.devices[i].port, .queues = options.pollers};
    ports[i] = open_end(options.ports.empty() ? wire : options.ports.at(i), configuration.devices[i]);
    if (ports[i] == nullptr) return;
  }
  left = make_device(left_state, configuration.devices[0], configuration, std::move(ports[0]),
                     std::move(engines[0]));
  right = make_device(right_state, configuration.devices[1], configuration, std::move(ports[1]),
                      std::move(engines[1]));
  left_state->partners = {right_state};
  right_state->partners = {left_state};
}

VirtualPair::~VirtualPair() = default;

void VirtualPair::advance(Duration by) { virtual_now = virtual_now + by; }
Instant VirtualPair::now() { return virtual_now; }

bool VirtualPair::turn(DeviceState& device) const {
  bool worked = false;
  for (const auto& poller : device.pollers) worked |= poller->turn(now()) == TurnOutcome::kWorked;
  return worked;
}

bool VirtualPair::turn_all() {
  const bool worked = turn(*left_state);
  return turn(*right_state) || worked;
}

void VirtualPair::settle(Duration step) {
  while (turn_all()) advance(step);
}

uint64_t VirtualPair::counter(DeviceState& device, Counter counter) const {
  uint64_t sum = 0;
  for (const auto& poller : device.pollers) sum += poller->counters().read(counter);
  return sum;
}

}  // namespace uroce::engine
