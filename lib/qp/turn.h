#pragma once

#include <cstdint>

#include "base/counters.h"
#include "base/latencies.h"
#include "base/time.h"
#include "copy/placer.h"
#include "mem/region_table.h"
#include "port/tx_batch.h"
#include "qp/local_memory.h"
#include "qp/notice.h"
#include "qp/used_keys.h"
#include "queue/completion_queue.h"

namespace uroce::qp {

/// Whether the application may answer what comes in a turn, so that an ACK can wait for the answer.
enum class Replies : uint8_t {
  kNone,
  kNextCall,  // the application makes the turn: by its next call
  kAnyTime,   // it makes no turns, but may be looking at its memory: by a call that no other turn announces
};

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
  Replies replies = Replies::kNone;
  /// A queue pair has sent a reply, and the ACK of what it replies to goes when that has left: the peer waits
  /// for the reply, and looks at nothing before it that it need not.
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
