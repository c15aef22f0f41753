#pragma once

#include "base/counters.h"
#include "base/time.h"
#include "copy/placer.h"
#include "mem/region_table.h"
#include "port/tx_batch.h"
#include "queue/completion_queue.h"

namespace uroce::qp {

/// Everything a queue pair may touch while its poller is turned. Lives as long as the poller; `now` is set
/// once per turn. What the queue pair does becomes visible outside in this order at the end of the turn:
/// placed bytes (placer.commit()), frames (tx), completions (completions.publish_all()): an application that
/// hears of a message may end the process, and its ACK has left by then.
struct Turn {
  Instant now;
  port::TxBatch& tx;
  copy::Placer& placer;
  queue::CompletionBatch& completions;
  mem::RegionTable& regions;
  Counters& counters;
  /// How many turns the application has made, this one included if it is its.
  uint64_t call = 0;
  /// The application makes the turn: it will hear of the messages that came in it, and may answer them
  /// with its next call.
  bool replies_may_follow = false;
};

}  // namespace uroce::qp
