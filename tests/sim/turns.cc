#include "tests/sim/turns.h"

#include <algorithm>

#include "tests/sim/virtual_clock.h"

namespace uroce::sim {

namespace {

constexpr Duration kTurn = nanoseconds(200);

}  // namespace

Turns::Turns(uint64_t seed) : random_(seed) {
  VirtualClock::set({});
  VirtualClock::on_nap([this](Duration duration) { let_pass(duration); });
}

bool Turns::round() {
  std::vector<Host*> order = hosts_;
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random_.below(i)]);
  bool busy = false;
  for (Host* const host : order) {
    for (size_t poller = 0; poller < host->pollers(); ++poller) busy |= host->turn(poller);
  }
  return busy;
}

void Turns::advance(bool busy, Instant next) {
  const Instant now = VirtualClock::now();
  for (const Host* const host : hosts_) next = std::min({next, host->end().next_arrival(), host->deadline()});
  VirtualClock::set(busy ? now + kTurn : std::max(now + kTurn, next));
}

void Turns::let_pass(Duration duration) {
  const Instant until = VirtualClock::now() + duration;
  while (VirtualClock::now() < until) {
    const bool busy = round();
    advance(busy, until);
  }
}

}  // namespace uroce::sim
