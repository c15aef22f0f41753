#pragma once

#include <cstdint>

#include "base/counters/latencies.h"
#include "qp/connection/connection.h"
#include "qp/connection/local_memory.h"
#include "qp/connection/send_window.h"
#include "qp/connection/turn.h"
#include "qp/recovery/loss_recovery.h"
#include "wire/packet.h"

namespace uroce::qp {

/// Takes the peer's answers (ACK, NAK, RNR NAK, READ and ATOMIC responses) and completes send work requests,
/// in order.
class Completer {
 public:
  explicit Completer(SendSide& send) : send_(send) {}

  void reset();
  void receive(const wire::Packet& packet, Turn& turn);
  /// On a service without answers: what was sent is complete.
  void sent(Turn& turn) { acknowledge_before(send_.window.sent_end(), turn); }
  /// A response that came early (Receipt::kEarly) is not kept.
  void drop_out_of_order(Turn& turn);
  /// A response that came early is kept, and none that is due before it. True: there were but messages, and
  /// it is due itself.
  bool reach_kept(Psn psn, Turn& turn);
  /// The invalidation that the oldest request waited for is over.
  void invalidated(Turn& turn);
  /// A part of a READ, which may be complete, could not be placed: it and what came behind it are taken back.
  void lost(const copy::MessageMark& mark, Turn& turn);

 private:
  using SendRequest = queue::SendRequest;

  void receive_stale(const wire::Packet& packet, Turn& turn);
  void receive_refusal(const wire::Packet& packet, Turn& turn);
  void drop(Turn& turn);
  void receive_nak(const wire::Aeth& aeth, Turn& turn);
  void receive_ack(Psn psn, Turn& turn);
  void receive_read_response(const wire::Packet& packet, Turn& turn);
  void receive_empty_response(const SendRequest& head, const wire::Packet& packet, Turn& turn);
  void receive_atomic_response(const wire::Packet& packet, Turn& turn);
  void place_read_data(const SendRequest& head, const wire::Packet& packet, Turn& turn);
  bool resolve(const SendRequest& head, uint64_t offset, uint64_t bytes, Turn& turn);
  bool invalidate(const SendRequest& head, Turn& turn);

  void receive_response_ahead(const wire::Packet& packet, Turn& turn);
  bool reach(Psn psn, Turn& turn);
  bool reach_by_response(const wire::Packet& packet, Turn& turn);
  [[gnu::cold]] void acknowledge_late(Turn& turn);
  void miss_before(Psn end, Turn& turn);
  bool acknowledge_before(Psn end, Turn& turn);
  void note_missing(Turn& turn);
  void complete(const SendRequest& head, Turn& turn);
  void complete_read(const SendRequest& head, Turn& turn);
  void retire_messages(Psn end, Turn& turn);
  void retire(const SendRequest& head, uint32_t messages, Turn& turn);
  void settle(uint32_t psns, Turn& turn);
  [[gnu::cold, gnu::noinline]] void show_round_trip(const Turn& turn);
  void fail_access(Turn& turn);

  SendSide& send_;
  SegmentCursor cursor_;  // in the oldest request, when that is a READ
  uint32_t reads_completed_ = 0;
  Psn early_;                // response that came early last
  Psn acknowledged_;         // by an ACK, the newest that came before responses that it is behind, ...
  bool acks_ahead_ = false;  // ... if there was one
  bool lost_ = false;        // a READ, and with it the connection
};

}  // namespace uroce::qp
