#include "tests/sim/host.h"

#include <algorithm>

#include "engine/device/device_state.h"
#include "engine/platform/eal.h"
#include "tests/sim/slow_engine.h"
#include "tests/sim/virtual_clock.h"
#include "tests/sim/write_guard.h"

namespace uroce::sim {

Host::Host(std::unique_ptr<WireEnd> end, const Options& options) : end_(*end) {
  engine::Configuration configuration;
  configuration.devices = {options.device};
  configuration.poller_mode = options.mode;
  configuration.copy_kind = options.copy_kind;
  configuration.congestion = options.congestion;
  configuration.follow_packets = options.follow_packets;
  configuration.selective_repeat = options.selective_repeat;
  configuration.pollers_per_device = end->capabilities().queues;
  const std::vector<uint32_t> lcores(end->capabilities().queues, engine::kNoLcore);
  std::vector<std::unique_ptr<copy::Engine>> engines;
  for (size_t i = 0; options.slow_engines && i < lcores.size(); ++i)
    engines.push_back(std::make_unique<SlowEngine>(*options.slow_engines + i));
  auto state =
      std::make_unique<engine::DeviceState>(engine::DeviceState::Options{.device = options.device,
                                                                         .configuration = configuration,
                                                                         .port = std::move(end),
                                                                         .lcores = lcores,
                                                                         .copy_engines = std::move(engines),
                                                                         .clock = &VirtualClock::now,
                                                                         .nap = &VirtualClock::nap});
  state_ = state.get();
  device_ = std::make_unique<engine::Device>(std::move(state));
}

Host::~Host() = default;

void Host::unwatch(std::span<std::byte> memory) {
  std::erase_if(watched_, [&](const auto& watched) { return watched.data() == memory.data(); });
}

/// When a damaged frame comes next, it comes alone and the watched memory is guarded meanwhile.
template <typename Turns>
void Host::guarded(const Turns& turns) {
  if (!end_.damaged_alone()) return turns();
  end_.quarantine(true);
  const WriteGuard guard(watched_);
  turns();
  if (guard.written()) failure_ = "a damaged frame changed memory";
  end_.quarantine(false);
}

size_t Host::pollers() const { return state_->pollers.size(); }

bool Host::turn(size_t poller) {
  bool worked = false;
  guarded(
      [&] { worked = state_->pollers[poller]->turn(VirtualClock::now()) == engine::TurnOutcome::kWorked; });
  return worked;
}

Instant Host::deadline() const {
  // A poller's own clock advances by no more than this from one turn to the next.
  Duration left = engine::kClockStepMax;
  for (const auto& poller : state_->pollers) left = std::min(left, poller->time_to_deadline());
  return VirtualClock::now() + left;
}

void Host::ring_doorbell(engine::QpSlot& queue_pair) {
  guarded([&] { device_->ring_doorbell(queue_pair); });
}

size_t Host::poll(queue::CompletionQueue& completions, std::span<queue::Completion> to) {
  if (const size_t count = completions.poll(to); count > 0) return count;
  guarded([&] { device_->turn_for(completions); });
  return completions.poll(to);
}

}  // namespace uroce::sim
