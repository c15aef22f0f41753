#include "stage.h"

#include <algorithm>
#include <array>

#include "engine/platform/eal.h"
#include "tests/sim/virtual_clock.h"
#include "wire/address_text.h"

namespace uroce::script {

namespace {

using Clock = sim::VirtualClock;

constexpr uint32_t kDepth = 1024;
constexpr MacAddress kOurMac{{2, 0, 0, 0, 0, 1}};
constexpr MacAddress kPeerMac{{2, 0, 0, 0, 0, 2}};
constexpr std::array kOurs = {"10.0.0.1", "fd00::1"};
constexpr std::array kPeers = {"10.0.0.2", "fd00::2"};
constexpr uint32_t kFirstPeer = 0x22;
constexpr Instant kStart{1'000'000'000};

engine::Configuration configuration() {
  engine::Configuration configuration;
  configuration.poller_mode = engine::PollerMode::kDedicated;  // and the threads are not started
  configuration.tail_probes = false;                           // tests/unit/qp and tests/sim have them
  engine::DeviceConfiguration& device = configuration.devices.emplace_back();
  device.mac = kOurMac;
  device.addresses = {{*wire::parse_ip(kOurs[0]), 24}, {*wire::parse_ip(kOurs[1]), 64}};
  for (const char* const peer : kPeers) device.neighbours.push_back({*wire::parse_ip(peer), kPeerMac});
  return configuration;
}

}  // namespace

Stage::Stage() : Stage(std::make_unique<replay::FedPort>(kOurMac)) {}

Stage::Stage(std::unique_ptr<replay::FedPort> port) : port_(*port) {
  Clock::set(kStart);
  const engine::Configuration configured = configuration();
  auto state =
      std::make_unique<engine::DeviceState>(engine::DeviceState::Options{.device = configured.devices[0],
                                                                         .configuration = configured,
                                                                         .port = std::move(port),
                                                                         .lcores = {engine::kNoLcore},
                                                                         .clock = &Clock::now,
                                                                         .nap = &Clock::nap});
  state_ = state.get();
  device_ = std::make_unique<engine::Device>(std::move(state));
  domain_ = device_->allocate_domain().value();
  other_domain_ = device_->allocate_domain().value();
  memory_ = std::make_unique<Memory>(device_->regions(), domain_, other_domain_);
  settle();
  sent.clear();  // the device makes itself known
}

Stage::~Stage() {
  for (const auto& [name, actor] : actors_) destroy(*actor);
  for (const auto& [name, shared] : shared_) {
    device_->destroy_shared_receives(std::move(shared->receives));
    if (shared->completions != nullptr) device_->retire_completion_queue(*shared->completions);
  }
  if (xrc_domain_ != nullptr) device_->destroy_xrc_domain(std::move(xrc_domain_));
  memory_.reset();
  device_->free_domain(domain_);
  device_->free_domain(other_domain_);
}

void Stage::destroy(Actor& actor) {
  if (actor.queue_pair == nullptr) return;
  for (const Gid& group : actor.groups) device_->detach_group(*actor.queue_pair, group);
  device_->destroy_queue_pair(*actor.queue_pair);
  actor.queue_pair = nullptr;
  device_->retire_completion_queue(*actor.sends);
  device_->retire_completion_queue(*actor.receives);
}

wire::Path Stage::path_to_peer(bool ipv6) {
  wire::Path path;
  path.source_mac = kOurMac;
  path.destination_mac = kPeerMac;
  path.source = *wire::parse_ip(kOurs[ipv6 ? 1 : 0]);
  path.destination = *wire::parse_ip(kPeers[ipv6 ? 1 : 0]);
  return path;
}

Actor& Stage::add_queue_pair(const Line& line, const std::string& name, engine::QueuePairOptions options) {
  auto actor = std::make_unique<Actor>();
  actor->name = name;
  actor->type = options.type;
  actor->peer = {kFirstPeer + static_cast<uint32_t>(actors_.size())};
  actor->sends = device_->create_completion_queue({.depth = kDepth});
  actor->receives = device_->create_completion_queue({.depth = kDepth});
  if (options.type == qp::Type::kXrcReceive) {
    options.xrc_domain = &xrc_domain();
  } else {
    options.domain = domain_;
    options.send_completions = actor->sends.get();
    if (options.type != qp::Type::kXrcSend) options.receive_completions = actor->receives.get();
  }
  options.listener = actor.get();
  auto made = device_->create_queue_pair(options);
  if (!made) line.fail(made.error().message);
  actor->queue_pair = *made;
  const auto [place, added] = actors_.emplace(name, std::move(actor));
  if (!added) line.fail("there is a queue pair of this name");
  return *place->second;
}

SharedReceives& Stage::add_shared_receives(const Line& line, const std::string& name, uint32_t depth,
                                           bool xrc) {
  auto shared = std::make_unique<SharedReceives>();
  engine::SharedReceivesOptions options{
      .domain = domain_, .queue = {.depth = depth, .segments_max = 4, .listener = shared.get()}};
  if (xrc) {
    shared->completions = device_->create_completion_queue({.depth = kDepth});
    options.xrc_domain = &xrc_domain();
    options.completions = shared->completions.get();
  }
  auto made = device_->create_shared_receives(options);
  if (!made) line.fail(made.error().message);
  shared->receives = std::move(*made);
  return *shared_.emplace(name, std::move(shared)).first->second;
}

engine::XrcDomain& Stage::xrc_domain() {
  if (xrc_domain_ == nullptr) xrc_domain_ = std::move(device_->create_xrc_domain().value());
  return *xrc_domain_;
}

uint32_t Stage::receives_number(const Line& line, const std::string& text) {
  const auto found = shared_.find(text);
  if (found == shared_.end()) return static_cast<uint32_t>(line.to_number(text));
  return found->second->receives->queue.options().xrc.number.value;
}

Actor& Stage::actor(const Line& line, const std::string& name) {
  const auto found = actors_.find(name);
  if (found == actors_.end()) line.fail("no such queue pair: " + name);
  return *found->second;
}

SharedReceives& Stage::shared_receives(const Line& line, const std::string& name) {
  const auto found = shared_.find(name);
  if (found == shared_.end()) line.fail("no such shared receive queue: " + name);
  return *found->second;
}

Instant Stage::now() { return {(Clock::now() - kStart).ns}; }

void Stage::turn() {
  state_->pollers[0]->turn(Clock::now());
  collect();
}

void Stage::settle() {
  engine::Poller& poller = *state_->pollers[0];
  while (poller.turn(Clock::now()) == engine::TurnOutcome::kWorked) {
  }
  collect();
}

void Stage::pass(Duration limit) {
  // A poller's own clock advances by no more than this from one turn to the next.
  Duration step = std::min(engine::kClockStepMax, limit);
  step = std::min(step, std::max(state_->pollers[0]->time_to_deadline(), microseconds(1)));
  Clock::set(Clock::now() + step);
  settle();
}

void Stage::collect() {
  for (replay::FedPort::Sent& frame : port_.take_sent()) {
    frame.time = {(frame.time - kStart).ns};
    sent.push_back(std::move(frame));
  }
  std::array<queue::Completion, 64> found;
  const auto poll = [&](queue::CompletionQueue& from, std::deque<queue::Completion>& to) {
    for (size_t count = found.size(); count == found.size();) {
      count = from.poll(found);
      to.insert(to.end(), found.begin(), found.begin() + static_cast<ptrdiff_t>(count));
    }
  };
  for (const auto& [name, actor] : actors_) {
    poll(*actor->sends, actor->send_completions);
    poll(*actor->receives, actor->receive_completions);
  }
  for (const auto& [name, shared] : shared_) {
    if (shared->completions != nullptr) poll(*shared->completions, shared->completed);
  }
}

}  // namespace uroce::script
