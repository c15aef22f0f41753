#pragma once

#include <cstdint>

#include "base/counters/counters.h"
#include "qp/attributes/attributes.h"
#include "qp/connection/queue_pair_options.h"
#include "qp/connection/turn.h"
#include "qp/queue_pair/queue_pair.h"
#include "wire/packet.h"

namespace uroce::qp {

/// A queue pair that takes the memory of its transport, 1 KiB, when it is first used: by a request that is
/// posted, a packet that it receives, or a state that only a used one has (SQD, SQE, ERR). Until then,
/// connected or not, it is what it was made with and its attributes; it has sent and received nothing. It
/// stays used to its end. Its poller, like QueuePair.
class QueuePairStorage {
 public:
  /// The memory is that of `options.transport`.
  explicit QueuePairStorage(const QueuePairOptions& options) : options_(options) {}
  QueuePairStorage(const QueuePairStorage&) = delete;
  QueuePairStorage& operator=(const QueuePairStorage&) = delete;
  ~QueuePairStorage() { end_use(); }

  /// The transport; nullptr: the queue pair is not in use.
  [[nodiscard]] QueuePair* used() const { return used_; }
  /// Where the transport lies while the queue pair is in use. Any thread, to prefetch it.
  [[nodiscard]] const void* place() const { return __atomic_load_n(&used_, __ATOMIC_RELAXED); }
  /// The transport; the queue pair is in use from now on. nullptr: there is no memory, and nothing has
  /// changed.
  [[nodiscard]] QueuePair* use() { return used_ != nullptr ? used_ : begin_use(); }
  /// True when the queue pair is not in use, and something was posted that asks for that.
  [[nodiscard]] bool wants_use() const;

  /// While it is not in use: why a packet that came for it is dropped, as receive() of its transport would;
  /// it stays unused then. kCount: the packet is for use().receive().
  [[nodiscard]] Counter reason_to_drop(const wire::Packet& packet) const;

  // As QueuePair; none of it takes memory but modify(), for the time of the call, unless it begins the use.
  int modify(const Attributes& attributes, AttributeMask mask, Turn& turn);
  [[nodiscard]] const Attributes& attributes() const {
    return used() != nullptr ? used()->attributes() : attributes_;
  }
  [[nodiscard]] State state() const { return attributes().state; }
  [[nodiscard]] Type type() const { return options_.type; }
  [[nodiscard]] QpNumber number() const { return options_.number; }
  [[nodiscard]] DomainId domain() const { return options_.domain; }
  [[nodiscard]] queue::CompletionQueue* send_completions() const { return options_.send_completions; }
  [[nodiscard]] queue::CompletionQueue* receive_completions() const { return options_.receive_completions; }
  [[nodiscard]] Traffic sent() const { return used() != nullptr ? used()->sent() : Traffic{}; }
  [[nodiscard]] Traffic received() const { return used() != nullptr ? used()->received() : Traffic{}; }
  [[nodiscard]] Incidents incidents() const { return used() != nullptr ? used()->incidents() : Incidents{}; }
  [[nodiscard]] uint32_t unanswered() const { return used() != nullptr ? used()->unanswered() : 0; }
  [[nodiscard]] Psn due_request() const {
    return used() != nullptr ? used()->due_request() : attributes_.rq_psn;
  }
  [[nodiscard]] Psn due_response() const {
    return used() != nullptr ? used()->due_response() : attributes_.sq_psn;
  }
  [[nodiscard]] CongestionState congestion() const;
  bool answer(Turn& turn, uint32_t budget) { return used() != nullptr && used()->answer(turn, budget); }
  bool abandon(Turn& turn);

 private:
  [[gnu::cold, gnu::noinline]] QueuePair* begin_use();
  void end_use();

  // Written by the poller alone. Relaxed where others read it: they do not look at what lies there.
  QueuePair* used_ = nullptr;
  const QueuePairOptions options_;
  Attributes attributes_;  // while it is not in use
};

}  // namespace uroce::qp
