#include "tests/sim/connections.h"

#include <algorithm>

#include "tests/sim/virtual_clock.h"

namespace uroce::sim {

namespace {

constexpr Duration kTooLong = seconds(600);

MacAddress mac_of(size_t host) { return {{2, 0, 0, 0, 0, static_cast<uint8_t>(host + 1)}}; }
Gid address_of(size_t host) { return Gid::from_ipv4({10, 0, 0, static_cast<uint8_t>(host + 1)}); }

}  // namespace

Connections::Connections(const Options& options)
    : options_(options), random_(options.seed), turns_(~options.seed) {
  std::vector<WireEnd*> ends;
  for (size_t i = 0; i < 2; ++i) {
    auto end = std::make_unique<WireEnd>(WireEnd::Options{.mac = mac_of(i),
                                                          .path = path_of(options.conditions),
                                                          .seed = random_.next(),
                                                          .queues = options.pollers});
    ends.push_back(end.get());
    const Host::Options host{.device = {.addresses = {{address_of(i), 24}}}, .mode = options.mode};
    hosts_.push_back(std::make_unique<Host>(std::move(end), host));
    turns_.add(*hosts_.back());
  }
  WireEnd::join(ends);
  for (const auto& host : hosts_)
    applications_.push_back(std::make_unique<ConnectingHost>(*host, random_.next()));
}

std::string Connections::run() {
  for (const auto& application : applications_) application->listen();
  for (size_t i = 0; i < applications_.size(); ++i)
    applications_[i]->connect(address_of(1 - i), options_.each);
  Instant next_act{};
  while (!std::ranges::all_of(applications_, [](const auto& its) { return its->over(); })) {
    bool busy = turns_.round();
    if (VirtualClock::now() >= next_act) {
      for (const auto& application : applications_) application->act();
      next_act = VirtualClock::now() + nanoseconds(static_cast<int64_t>(random_.below(200'000)));
      busy = true;
    }
    if (std::string wrong = failure(); !wrong.empty()) return wrong;
    if (VirtualClock::now() - Instant{} > kTooLong) return "stuck";
    turns_.advance(busy, next_act);
  }
  std::string wrong;
  for (const auto& application : applications_) wrong += application->close();
  return wrong;
}

std::string Connections::failure() const {
  for (const auto& application : applications_) {
    if (!application->failure().empty()) return application->failure();
  }
  for (const auto& host : hosts_) {
    if (!host->failure().empty()) return host->failure();
  }
  return {};
}

ConnectingHost::Totals Connections::totals() const {
  ConnectingHost::Totals sum;
  for (const auto& application : applications_) sum += application->totals();
  return sum;
}

}  // namespace uroce::sim
