#pragma once

#include <cstdint>

#include "base/identifiers.h"
#include "base/time.h"
#include "qp/attributes.h"
#include "qp/turn.h"
#include "queue/completion_queue.h"
#include "queue/work_queue.h"
#include "wire/packet.h"

namespace uroce::qp {

/// One RC queue pair: requester, completer and responder over shared state. No clock, no randomness, no I/O:
/// `now`, buffers and memory come with the Turn. All members are called on the poller that owns the queue
/// pair. No call allocates after construction.
class QueuePair {
 public:
  struct Options {
    Type type = Type::kRc;
    QpNumber number;
    DomainId domain;
    bool signal_all = false;
    uint8_t rd_atomic_max = 16;              // upper limit for max_rd_atomic and max_dest_rd_atomic
    queue::SendQueue* send_queue = nullptr;  // not owned, like the rest
    queue::ReceiveQueue* receive_queue = nullptr;
    queue::CompletionQueue* send_completions = nullptr;
    queue::CompletionQueue* receive_completions = nullptr;
  };

  explicit QueuePair(const Options& options);

  [[nodiscard]] State state() const;
  [[nodiscard]] QpNumber number() const;
  [[nodiscard]] const Attributes& attributes() const;  // current values, as ibv_query_qp wants them

  /// ibv_modify_qp after the face has translated it: 0, or an errno and nothing changed.
  int modify(const Attributes& attributes, uint32_t mask, Turn& turn);

  /// A packet for this queue pair whose ICRC was right. Whatever it holds, the outcome is a state change by
  /// the rules, a NAK, or a counted drop.
  void receive(const wire::Packet& packet, Turn& turn);

  /// Builds up to `budget` frames: responses first, then requests. True when there is more to send right now.
  bool pump(Turn& turn, uint32_t budget);

  /// Next moment at which expire() wants to be called; kNever for none. Changes in receive(), pump(),
  /// modify().
  [[nodiscard]] Instant deadline() const;
  void expire(Turn& turn);
};

}  // namespace uroce::qp
