#pragma once

#include "engine/poller/poller.h"
#include "engine/poller/poller_qp.h"

namespace uroce::engine {

/// Runs `function(entry, turn)` in a turn of the poller that has the queue pair. That may be another one when
/// its turn comes than it was before, or the queue pair is gone by then: `poller_of()` says which poller has
/// it now, `find()`, in a turn, which queue pair it is; null: there is none. False: there was none, or the
/// poller is closed, and nothing was run.
template <typename PollerOf, typename Find, typename Function>
bool run_where_found(PollerOf poller_of, Find find, Function function) {
  for (;;) {
    Poller* const poller = poller_of();
    if (poller == nullptr) return false;
    bool done = false;
    bool moved = false;
    poller->run([&](qp::Turn& turn) {
      PollerQp* const entry = find();
      if (entry == nullptr) return;
      moved = !entry->is_of(poller->index());
      if (moved) return;
      function(*entry, turn);
      done = true;
    });
    if (!moved) return done;
  }
}

/// Runs `function(turn)` in a turn of the poller that has `entry`, which the caller keeps from being
/// destroyed. False: the poller is closed and nothing was run.
template <typename Function>
bool run_where_it_is(PollerQp& entry, Function function) {
  return run_where_found([&] { return &entry.poller(); }, [&] { return &entry; },
                         [&](PollerQp&, qp::Turn& turn) { function(turn); });
}

}  // namespace uroce::engine
