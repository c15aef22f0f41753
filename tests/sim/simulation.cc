#include "tests/sim/simulation.h"

#include <sched.h>

#include <algorithm>
#include <array>
#include <utility>

#include "tests/sim/virtual_clock.h"

namespace uroce::sim {

namespace {

// What a round takes when there is more to do; longer with two threads, which may have to share a CPU.
constexpr Duration kTurn = nanoseconds(200);
constexpr Duration kThreadedTurn = microseconds(5);
constexpr Duration kTooLong = seconds(30);  // without a message that completes

constexpr std::array<MacAddress, 2> kMacs = {MacAddress{{2, 0, 0, 0, 0, 1}}, MacAddress{{2, 0, 0, 0, 0, 2}}};

/// GIDs of a host: 0 the link-local one, then these.
std::vector<engine::InterfaceAddress> addresses_of(size_t side) {
  const auto last = static_cast<uint8_t>(side + 1);
  return {{Gid::from_ipv4({10, 0, 0, last}), 24},
          {Gid{{0xFD, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last}}, 64}};
}
constexpr size_t kGids = 3;

}  // namespace

Simulation::Simulation(const Options& options) : options_(options), random_(options.seed) {
  VirtualClock::set({});
  VirtualClock::on_nap([this](Duration duration) { let_pass(duration); });
  for (size_t side = 0; side < kMacs.size(); ++side) {
    auto end = make_end(side);
    hosts_.push_back(std::make_unique<Host>(std::move(end), host_options(side)));
    for (size_t i = 0; i < hosts_[side]->pollers(); ++i) turners_.push_back({side, i});
  }
  WireEnd::join(std::array{&hosts_[0]->end(), &hosts_[1]->end()});
  if (options.machines.background_thread) {
    background_ = std::jthread([this](const std::stop_token& stop) { attend(stop); });
  }
  for (uint32_t i = 0; i < options.connections; ++i) add_connection(i);
  for (uint32_t i = 0; options.unanswered && i < options.connections; ++i) add_unanswered(i);
}

std::unique_ptr<WireEnd> Simulation::make_end(size_t side) {
  WireEnd::Options end{.mac = kMacs[side],
                       .path = path_of(options_.conditions),
                       .seed = random_.next(),
                       .queues = options_.machines.pollers,
                       .steering = options_.machines.steering,
                       .isolate_damaged = !options_.machines.background_thread};
  end.watch_left = [this, side](const Frame& frame) { follow_judge_.left(side, frame.bytes); };
  end.watch_taken = [this, side](const Frame& frame) {
    if (!frame.damaged) follow_judge_.arrived(side, frame.bytes);
  };
  return std::make_unique<WireEnd>(std::move(end));
}

Host::Options Simulation::host_options(size_t side) {
  constexpr std::array kKinds = {copy::Kind::kAuto, copy::Kind::kOrdinary, copy::Kind::kString,
                                 copy::Kind::kNonTemporal};
  Host::Options host{.device = {.addresses = addresses_of(side)},
                     .mode = options_.machines.mode,
                     .copy_kind = kKinds[random_.below(kKinds.size())],
                     .congestion = options_.congestion,
                     .follow_packets = options_.machines.follow_packets};
  const bool goes_back = options_.machines.go_back && (options_.seed >> side & 1) != 0;
  host.device.mig_req = host.selective_repeat = !goes_back;
  if (options_.machines.slow_engines) host.slow_engines = random_.next();
  const size_t other = 1 - side;
  const std::array<Gid, 1> link_local = {net::GidTable(kMacs[other], {}).at(0)};
  if (!options_.machines.ask_neighbours) {
    host.device.neighbours.push_back({link_local[0], kMacs[other]});
    for (const auto& address : addresses_of(other)) {
      host.device.neighbours.push_back({address.address, kMacs[other]});
    }
  }
  return host;
}

void Simulation::add_connection(uint32_t index) {
  const auto make_endpoint = [&](size_t side, uint32_t which) -> Endpoint& {
    const Endpoint::Options options{.iova = (uint64_t{which} << 40) + (uint64_t{index} << 32),
                                    .signal_all = random_.chance(1, 4)};
    return *endpoints_.emplace_back(std::make_unique<Endpoint>(*hosts_[side], options, random_));
  };
  const bool own = options_.machines.own_addresses && random_.chance(1, 2);
  const size_t side = random_.below(hosts_.size());
  Endpoint& a = make_endpoint(side, 0);
  const bool to_itself = own && !options_.keys && random_.chance(1, 3);
  Endpoint& b = to_itself ? a : make_endpoint(own ? side : 1 - side, 1);

  const ConnectionOptions connection{.path_mtu = static_cast<PathMtu>(1 + random_.below(5)),
                                     .psn_a = first_psn(),
                                     .psn_b = first_psn(),
                                     .reads = static_cast<uint8_t>(1 + random_.below(16)),
                                     .timeout = options_.timeout,
                                     .min_rnr_timer = static_cast<uint8_t>(1 + random_.below(8)),
                                     .gid = random_.below(kGids)};
  connect(a, b, connection);
  // Where packets come to several pollers the queue pair sees them in another order.
  if (!own && options_.machines.pollers == 1) {
    const uint32_t mtu = path_mtu_bytes(connection.path_mtu);
    follow_judge_.watch(1 - side, b.number(), a.number(), mtu);
    follow_judge_.watch(side, a.number(), b.number(), mtu);
  }
  if (options_.keys) {
    key_traffic_.push_back(std::make_unique<KeyTraffic>(
        a, b,
        KeyTraffic::Options{
            .rounds = options_.messages, .seed = random_.next(), .break_in = options_.break_in}));
    return;
  }
  if (options_.atomics) {
    add_atomics(a, b);
    if (&a != &b) add_atomics(b, a);
    return;
  }
  add_flow(a, b, connection.path_mtu);
  if (&a != &b) add_flow(b, a, connection.path_mtu);
}

/// Half of the connections pass the end of the PSN space.
Psn Simulation::first_psn() {
  return random_.chance(1, 2) ? Psn(Psn::kMask - static_cast<uint32_t>(random_.below(100)))
                              : Psn(static_cast<uint32_t>(random_.next()));
}

void Simulation::add_unanswered(uint32_t index) {
  const bool datagrams = random_.chance(1, 2);
  const Endpoint::Options options{.iova = uint64_t{index} << 32,
                                  .type = datagrams ? qp::Type::kUd : qp::Type::kUc};
  const size_t side = random_.below(hosts_.size());
  const size_t other = options_.machines.own_addresses && random_.chance(1, 2) ? side : 1 - side;
  const auto make = [&](size_t where) -> Endpoint& {
    return *endpoints_.emplace_back(std::make_unique<Endpoint>(*hosts_[where], options, random_));
  };
  Endpoint& a = make(side);
  Endpoint& b = make(other);
  const auto address = connect_unanswered(a, b,
                                          {.path_mtu = static_cast<PathMtu>(1 + random_.below(5)),
                                           .psn_a = first_psn(),
                                           .psn_b = first_psn(),
                                           .gid = random_.below(kGids)});
  const Machines& machines = options_.machines;
  const bool in_order = options_.conditions.reordering == 0 && options_.conditions.duplication == 0 &&
                        (machines.pollers == 1 || machines.steering == Steering::kHash);
  unanswered_.push_back(std::make_unique<UnansweredTraffic>(
      a, b,
      UnansweredTraffic::Options{
          .messages = 2 * options_.messages,
          .bytes_max = datagrams ? path_mtu_bytes(a.host.device().path_mtu_max()) : 6'000,
          .seed = random_.next(),
          .in_order = in_order && !datagrams,
          .to = address}));
}

void Simulation::add_atomics(Endpoint& user, Endpoint& owner) {
  const size_t side = &owner.host == hosts_[0].get() ? 0 : 1;
  atomic_traffic_.push_back(std::make_unique<AtomicTraffic>(
      user, owner, counters_[side],
      AtomicTraffic::Options{.operations = options_.messages, .seed = random_.next()}));
}

void Simulation::add_flow(Endpoint& from, Endpoint& to, PathMtu mtu) {
  flows_.push_back(std::make_unique<Flow>(from, to,
                                          Flow::Options{.messages = options_.messages,
                                                        .mtu = path_mtu_bytes(mtu),
                                                        .seed = random_.next(),
                                                        .errors_expected = options_.errors_expected,
                                                        .spoil = options_.spoil}));
}

std::string Simulation::run() {
  std::string wrong = run_flows();
  background_ = {};
  return wrong;
}

void Simulation::attend(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    for (const auto& host : hosts_) {
      for (size_t i = 0; i < host->pollers(); ++i) host->turn(i);
    }
    attended_.fetch_add(1, std::memory_order_release);  // pairs with the acquire in round()
  }
}

std::string Simulation::run_flows() {
  while (!done()) {
    bool busy = round();
    if (VirtualClock::now() >= next_act_ && !paused()) {
      act();
      busy = true;
    }
    if (std::string wrong = failure(); !wrong.empty()) return wrong;
    advance(busy);
    if (stuck()) return "stuck";
  }
  if (options_.errors_expected) {
    if (std::string wrong = break_all(); !wrong.empty()) return wrong;
  }
  return check_end();
}

/// The applications put what is left of the flows' connections into the error state: then everything that was
/// posted, receives included, comes back. What is unanswered beside them has ended by itself, with receives
/// that no frame was sent to, and its close() takes those back.
std::string Simulation::break_all() {
  constexpr int kRoundsMax = 10'000;
  for (const auto& flow : flows_) flow->stop();
  for (const auto& endpoint : endpoints_) {
    if (endpoint->type == qp::Type::kRc) endpoint->modify({.state = qp::State::kErr}, qp::kMaskState);
  }
  const auto drained = [&] {
    return std::all_of(flows_.begin(), flows_.end(), [](const auto& flow) { return flow->drained(); });
  };
  for (int i = 0; i < kRoundsMax && !drained() && failure().empty(); ++i) {
    round();
    act();
    advance(true);
  }
  if (std::string wrong = failure(); !wrong.empty()) return wrong;
  return drained() ? "" : "not everything was flushed";
}

/// Every poller gets a turn, in an order of its own, or from the background thread; true when one did
/// something.
bool Simulation::round() {
  if (options_.machines.background_thread) {
    // Time goes on no faster than the other thread.
    const uint64_t before = attended_.load(std::memory_order_acquire);  // pairs with attend()
    while (attended_.load(std::memory_order_acquire) == before) sched_yield();
    return true;
  }
  for (size_t i = turners_.size(); i > 1; --i) std::swap(turners_[i - 1], turners_[random_.below(i)]);
  bool busy = false;
  for (Turner& turner : turners_) {
    if (!paused(turner.side) && !starved(turner)) busy |= hosts_[turner.side]->turn(turner.poller);
  }
  return busy;
}

bool Simulation::starved(Turner& turner) {
  constexpr uint64_t kRoundsBetween = 2'000;
  const Duration most = options_.machines.starvation;
  const Instant now = VirtualClock::now();
  if (now >= turner.starved_until && most > Duration{} && random_.chance(1, kRoundsBetween)) {
    turner.starved_until =
        now + nanoseconds(static_cast<int64_t>(random_.below(static_cast<uint64_t>(most.ns))));
  }
  return now < turner.starved_until;
}

/// What the applications do.
void Simulation::act() {
  for (const auto& flow : flows_) flow->act();
  for (const auto& keys : key_traffic_) keys->act();
  for (const auto& traffic : unanswered_) traffic->act();
  for (const auto& atomics : atomic_traffic_) atomics->act();
  next_act_ = VirtualClock::now() + nanoseconds(static_cast<int64_t>(random_.below(20'000)));
}

/// While one application waits in a call, pollers turn; the other applications wait as well.
void Simulation::let_pass(Duration duration) {
  const Instant until = VirtualClock::now() + duration;
  while (VirtualClock::now() < until) advance(round());
}

void Simulation::advance(bool busy) {
  const Instant next = VirtualClock::now() + (options_.machines.background_thread ? kThreadedTurn : kTurn);
  VirtualClock::set(busy ? next : std::max(next, next_event()));
}

bool Simulation::stuck() {
  const Instant now = VirtualClock::now();
  if (const uint64_t completed = messages(); completed != progress_) {
    progress_ = completed;
    progress_at_ = now;
  }
  return now - progress_at_ > kTooLong;
}

bool Simulation::paused() const {
  return VirtualClock::now() >= options_.pause.begin && VirtualClock::now() < options_.pause.end;
}

Instant Simulation::next_event() const {
  Instant next = paused() ? options_.pause.end : next_act_;
  for (const Turner& turner : turners_) {
    if (turner.starved_until > VirtualClock::now()) next = std::min(next, turner.starved_until);
  }
  for (size_t side = 0; side < hosts_.size(); ++side) {
    const Host& host = *hosts_[side];
    if (!paused(side)) next = std::min({next, host.end().next_arrival(), host.deadline()});
  }
  return next;
}

bool Simulation::done() const {
  const auto is_done = [](const auto& traffic) { return traffic->done(); };
  return std::ranges::all_of(flows_, is_done) && std::ranges::all_of(key_traffic_, is_done) &&
         std::ranges::all_of(unanswered_, is_done) && std::ranges::all_of(atomic_traffic_, is_done);
}

std::string Simulation::failure() const {
  for (const auto& flow : flows_) {
    if (!flow->failure().empty()) return flow->failure();
  }
  for (const auto& keys : key_traffic_) {
    if (!keys->failure().empty()) return keys->failure();
  }
  for (const auto& traffic : unanswered_) {
    if (!traffic->failure().empty()) return traffic->failure();
  }
  for (const auto& atomics : atomic_traffic_) {
    if (!atomics->failure().empty()) return atomics->failure();
  }
  for (const auto& host : hosts_) {
    if (!host->failure().empty()) return host->failure();
  }
  return follow_judge_.failure();
}

std::string Simulation::check_end() {
  for (const auto& keys : key_traffic_) {
    if (const std::string wrong = keys->close(); !wrong.empty()) return wrong;
  }
  for (const auto& traffic : unanswered_) {
    if (const std::string wrong = traffic->close(); !wrong.empty()) return wrong;
  }
  for (const auto& atomics : atomic_traffic_) atomics->close();
  for (const SharedCounter& counter : counters_) {
    if (counter.value != counter.found.size()) return "a counter that is not what was added to it";
  }
  for (const auto& endpoint : endpoints_) {
    if (!options_.errors_expected && !endpoint->arena.idle()) return "memory still lent";
    if (const std::string wrong = endpoint->arena.check(); !wrong.empty()) return "at the end: " + wrong;
    std::array<queue::Completion, 1> extra;
    const size_t extras = endpoint->poll_sends(extra) + endpoint->poll_receives(extra);
    if (extras > 0) return "a completion too many";
    if (const std::string wrong = endpoint->close(); !wrong.empty()) return "closing: " + wrong;
  }
  return failure();
}

uint64_t Simulation::counter(Counter counter) const {
  return hosts_[0]->device().counter(counter) + hosts_[1]->device().counter(counter);
}

uint64_t Simulation::frames() const { return hosts_[0]->end().sent() + hosts_[1]->end().sent(); }

uint64_t Simulation::damaged() const {
  return hosts_[0]->end().damaged_received() + hosts_[1]->end().damaged_received();
}

uint64_t Simulation::damaged_watched() const {
  return hosts_[0]->end().damaged_isolated() + hosts_[1]->end().damaged_isolated();
}

uint64_t Simulation::messages() const {
  uint64_t sum = 0;
  for (const auto& flow : flows_) sum += flow->completed();
  for (const auto& keys : key_traffic_) sum += keys->completed();
  for (const auto& traffic : unanswered_) sum += traffic->completed();
  for (const auto& atomics : atomic_traffic_) sum += atomics->completed();
  return sum;
}

uint64_t Simulation::unanswered_received() const {
  uint64_t sum = 0;
  for (const auto& traffic : unanswered_) sum += traffic->received();
  return sum;
}

}  // namespace uroce::sim
