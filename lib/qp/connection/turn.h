#pragma once

#include <cstdint>

#include "base/counters/counters.h"
#include "base/counters/latencies.h"
#include "base/values/time.h"
#include "copy/placer.h"
#include "mem/keys/region_table.h"
#include "port/tx_batch.h"
#include "qp/acknowledgement/ack_policy.h"
#include "qp/attributes/notice.h"
#include "qp/connection/local_memory.h"
#include "qp/connection/used_keys.h"
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
  Delivery delivery = Delivery::kNone;
  /// A queue pair has an ACK for when the data that it has built has left (AckTime::kAfterData).
  bool answers_follow = false;
  /// Queue pairs with short messages send besides: one with long ones has no more under way than the path
  /// takes.
  bool shared = false;
  /// Speed of the port's link in Mbit/s; 0: unknown.
  uint32_t line_mbps = 0;
  Latencies* latencies = nullptr;     // null: none are kept
  NoticeListener* notices = nullptr;  // null: none are wanted
  /// Where one packet goes to or comes from, when that is not found at once. Dies with the packet.
  ResolvedRange range{};
  UsedKeys keys{};
};

}  // namespace uroce::qp
