#include "tests/sim/simulation.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "tests/sim/write_guard.h"

namespace uroce::sim {

namespace {

constexpr int64_t kTurnNs = 200;  // what a turn takes when there is more to do
constexpr Instant kTooLong{seconds(600).ns};

constexpr std::array<MacAddress, 2> kMacs = {MacAddress{{2, 0, 0, 0, 0, 1}}, MacAddress{{2, 0, 0, 0, 0, 2}}};

Path path_of(const Weather& weather) {
  Path path;
  path.push_back(std::make_unique<Outage>(weather.cut, kNever));
  path.push_back(std::make_unique<Drop>(weather.loss));
  path.push_back(std::make_unique<Corrupt>(weather.corruption));
  path.push_back(std::make_unique<Truncate>(weather.truncation));
  path.push_back(std::make_unique<Delay>(weather.latency, weather.reordering, weather.jitter));
  path.push_back(std::make_unique<Duplicate>(weather.duplication, weather.jitter));
  return path;
}

wire::Path addresses(bool ipv6) {
  wire::Path path;
  path.source_mac = kMacs[0];
  path.destination_mac = kMacs[1];
  if (ipv6) {
    path.source.bytes = {0xFD, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
    path.destination.bytes = {0xFD, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2};
  } else {
    path.source = Gid::from_ipv4({10, 0, 0, 1});
    path.destination = Gid::from_ipv4({10, 0, 0, 2});
  }
  return path;
}

}  // namespace

Simulation::Simulation(const Options& options) : options_(options), random_(options.seed) {
  constexpr std::array kKinds = {copy::Kind::kAuto, copy::Kind::kOrdinary, copy::Kind::kString,
                                 copy::Kind::kNonTemporal};
  for (const MacAddress& mac : kMacs) {
    ends_.push_back(std::make_unique<WireEnd>(
        now_, WireEnd::Options{.mac = mac, .path = path_of(options.weather), .seed = random_.next()}));
    hosts_.push_back(std::make_unique<Host>(now_, *ends_.back(), kKinds[random_.below(kKinds.size())]));
  }
  WireEnd::join(*ends_[0], *ends_[1]);
  for (uint32_t i = 0; i < options.connections; ++i) add_connection(i);
}

void Simulation::add_connection(uint32_t index) {
  for (uint32_t side = 0; side < 2; ++side) {
    const Endpoint::Options options{.number = {0x100 * (side + 1) + index},
                                    .iova = (uint64_t{side} << 40) + (uint64_t{index} << 32),
                                    .signal_all = random_.chance(1, 4)};
    endpoints_.push_back(std::make_unique<Endpoint>(*hosts_[side], options, random_));
  }
  Endpoint& a = *endpoints_[endpoints_.size() - 2];
  Endpoint& b = *endpoints_.back();

  ConnectionOptions connection;
  connection.path_mtu = static_cast<PathMtu>(1 + random_.below(5));
  // Half of the connections pass the end of the PSN space.
  connection.psn_a = random_.chance(1, 2) ? Psn(Psn::kMask - static_cast<uint32_t>(random_.below(100)))
                                          : Psn(static_cast<uint32_t>(random_.next()));
  connection.psn_b = random_.chance(1, 2) ? Psn(Psn::kMask - static_cast<uint32_t>(random_.below(100)))
                                          : Psn(static_cast<uint32_t>(random_.next()));
  connection.reads = static_cast<uint8_t>(1 + random_.below(16));
  connection.min_rnr_timer = static_cast<uint8_t>(1 + random_.below(8));
  connection.timeout = options_.timeout;
  connection.path_a = addresses(random_.chance(1, 2));
  connect(a, b, connection);

  for (const auto& [from, to] : {std::pair(&a, &b), std::pair(&b, &a)}) {
    flows_.push_back(std::make_unique<Flow>(*from, *to,
                                            Flow::Options{.messages = options_.messages,
                                                          .mtu = path_mtu_bytes(connection.path_mtu),
                                                          .seed = random_.next(),
                                                          .errors_expected = options_.errors_expected,
                                                          .spoil = options_.spoil}));
  }
}

/// One turn of a host. A damaged frame comes alone: then nothing in the host's memory may change.
std::string Simulation::turn(size_t side, bool& busy) {
  if (!ends_[side]->next_is_damaged()) {
    busy |= hosts_[side]->turn();
    return {};
  }
  std::vector<std::span<std::byte>> memory;
  for (size_t i = side; i < endpoints_.size(); i += hosts_.size())
    memory.push_back(endpoints_[i]->arena.memory());
  const WriteGuard guard(std::move(memory));
  busy |= hosts_[side]->turn();
  return guard.written() ? "a damaged frame changed memory" : "";
}

std::string Simulation::run() {
  while (!done()) {
    bool busy = false;
    for (size_t side = 0; side < hosts_.size(); ++side) {
      if (paused(side)) continue;
      if (const std::string wrong = turn(side, busy); !wrong.empty()) return wrong;
    }
    if (now_ >= next_act_ && !paused()) {
      for (const auto& flow : flows_) {
        flow->act();
        if (!flow->failure().empty()) return flow->failure();
      }
      next_act_ = now_ + nanoseconds(static_cast<int64_t>(random_.below(20'000)));
      busy = true;
    }
    now_ = busy ? now_ + nanoseconds(kTurnNs) : std::max(now_ + nanoseconds(1), next_event());
    if (now_ > kTooLong) return "stuck";
  }
  return check_end();
}

Instant Simulation::next_event() const {
  Instant next = paused() ? options_.pause.end : next_act_;
  for (size_t side = 0; side < hosts_.size(); ++side) {
    if (!paused(side)) next = std::min({next, ends_[side]->next_arrival(), hosts_[side]->deadline()});
  }
  return next;
}

bool Simulation::done() const {
  return std::all_of(flows_.begin(), flows_.end(), [](const auto& flow) { return flow->done(); });
}

std::string Simulation::check_end() const {
  for (const auto& endpoint : endpoints_) {
    if (!options_.errors_expected && !endpoint->arena.idle()) return "memory still lent";
    if (const std::string wrong = endpoint->arena.check(); !wrong.empty()) return "at the end: " + wrong;
    std::array<queue::Completion, 1> extra;
    const size_t extras = endpoint->send_completions.poll(extra) + endpoint->receive_completions.poll(extra);
    if (extras > 0 && !options_.errors_expected) return "a completion too many";
  }
  return {};
}

uint64_t Simulation::counter(Counter counter) const {
  return hosts_[0]->counters().read(counter) + hosts_[1]->counters().read(counter);
}

uint64_t Simulation::messages() const {
  uint64_t sum = 0;
  for (const auto& flow : flows_) sum += flow->completed();
  return sum;
}

}  // namespace uroce::sim
