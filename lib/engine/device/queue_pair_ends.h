#pragma once

#include <sched.h>

#include "engine/device/queue_pair_turns.h"

// What comes before the end of a queue pair: its destruction, the error state and RESET.
namespace uroce::engine {

/// Receives what has arrived for the queue pair by now, at any poller of the device: a NIC would have
/// received it when it came, and a peer whose request arrived before the end of the queue pair expects its
/// answer.
void drain(PollerQp& entry);

/// Runs `end(turn)`, the end of a queue pair, in the first turn in which the peer is owed nothing more. A
/// program that has seen the last receive complete may be there before its acknowledgement has left, and
/// without it the peer would repeat its request in vain. What was posted has had a turn before, as programs
/// expect that post and leave. False: the poller is closed and nothing was run.
template <typename End>
bool run_when_answered(PollerQp& entry, End end) {
  constexpr int kTurnsMax = 64;  // more can only be a long READ, or a process that takes nothing
  bool ran = true;
  bool owing = true;
  for (int turns = 0; ran && owing; ++turns) {
    ran = run_where_it_is(entry, [&](qp::Turn& turn) {
      const bool unsent = turns == 0 && entry.poller().has_work(entry);
      owing = unsent || (entry.poller().answer(entry) && turns < kTurnsMax);
      if (!owing) end(turn);
    });
    if (owing && turns > 0) sched_yield();
  }
  return ran;
}

}  // namespace uroce::engine
