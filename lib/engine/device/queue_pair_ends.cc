// The end of a queue pair (destruction, ERR, RESET, of XRC targets too) first receives what has arrived for
// it, then sends what it owes. A NIC answers a request when it comes; a request that waits in the port would
// be repeated until its retries run out. All pollers have a turn that finds their port empty, kTurnsMax at
// most. Cost: two turns more for each queue pair that can receive. Not covered: at the end of a process,
// requests that came to another poller than that of their queue pair.
//
// Decision: what a queue pair owes its peer and its end are one command to the poller; likewise an answer and
// ERR or RESET. When answers take more turns, the end comes with the last.
#include "engine/device/queue_pair_ends.h"

#include <span>

namespace uroce::engine {

namespace {

bool may_receive(const PollerQp& entry) {
  const qp::State state = entry.queue_pair.state();
  return state >= qp::State::kRtr && state <= qp::State::kSqe;
}

}  // namespace

void drain(PollerQp& entry) {
  constexpr int kTurnsMax = 64;  // more can only be others that go on sending
  bool receives = true;
  const auto drain_own = [&] {
    bool looked = false;
    bool drained = false;
    for (int turns = 0; !drained && turns < kTurnsMax; ++turns) {
      const bool ran = run_where_it_is(entry, [&](qp::Turn&) {
        receives = may_receive(entry);
        drained = !receives || entry.poller().has_drained(looked);
      });
      if (!ran) return;
    }
  };
  drain_own();
  const std::span<Poller* const> all = entry.poller().siblings();
  if (!receives || all.size() == 1) return;
  for (Poller* const poller : all) {
    bool looked = false;
    bool drained = false;
    for (int turns = 0; !drained && turns < kTurnsMax; ++turns)
      if (!poller->run([&](qp::Turn&) { drained = poller->has_drained(looked); })) break;
  }
  drain_own();  // what the others have handed over
}

}  // namespace uroce::engine
