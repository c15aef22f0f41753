#pragma once

#include <cstdint>

#include "base/values/time.h"
#include "qp/connection/connection.h"
#include "qp/connection/frame_writer.h"
#include "qp/connection/local_memory.h"
#include "qp/connection/sending.h"
#include "qp/connection/turn.h"
#include "qp/recovery/reordering.h"
#include "qp/responder/inbound_message.h"
#include "qp/responder/message_checks.h"
#include "qp/responder/request_context.h"
#include "qp/responder/responder.h"
#include "qp/responder/response_queue.h"
#include "wire/packet.h"

namespace uroce::qp {

/// Performs the peer's requests in PSN order and answers them, also in PSN order: first the responses to
/// READs and atomics that are due, then one ACK or NAK for everything so far. READ responses are built packet
/// by packet as the pump allows. XRC target: the same, for the shared receive queue that each message names.
///
/// An ACK names the newest performed SEND or WRITE (`ack_psn_`), never a READ or an atomic, and leaves behind
/// the responses to all requests before that. A requester takes an ACK of a READ's last PSN as the READ's
/// completion (rxe) or has no rule for it; the response may be lost, and only the requester knows. An ACK of
/// a later SEND or WRITE makes the requester ask for the missing response again. The cost is one PSN a
/// connection.
///
/// Three files: rc_responder.cc receives and places messages, rc_responder_operations.cc performs what
/// is answered by itself, and rc_responder_answers.cc says what there is to say.
class RcResponder final : public Responder {
 public:
  explicit RcResponder(Sending& send) : send_(send) {}

  void reset(Psn expected) override;
  void receive(const wire::Packet& packet, Turn& turn) override;
  bool refuse_due(const wire::Packet& packet, RequestStatus status, Turn& turn) override;
  [[nodiscard]] Psn expected() const override { return expected_; }
  void drop_out_of_order(Psn psn, Turn& turn) override;
  [[nodiscard]] bool owes() const override {
    return send_.connection.acks.owes() || nak_ != Nak::kNone || responses_.pending() > 0;
  }
  [[nodiscard]] bool provide(uint32_t resources) override { return responses_.provide(resources); }
  Pumped pump(Turn& turn, uint32_t budget) override;
  void drop_answers() override;
  void invalidated(Turn& turn) override;
  void shift(Duration by) override { uroce::shift(by, rnr_quiet_until_); }
  void lost(const copy::MessageMark& mark, Turn& turn) override;

 private:
  /// The NAK behind the READ responses, which leaves instead of an ACK. NAKs are about expected_, so nothing
  /// but the kind needs to be kept.
  enum class Nak : uint8_t { kNone, kSequence, kRnr, kInvalidRequest, kRemoteAccess, kOperational };

  bool turn_to_receives(queue::SrqNumber number, Turn& turn);
  [[gnu::noinline]] void receive_out_of_order(const wire::Packet& packet, Turn& turn);
  void receive_ahead(const wire::Packet& packet, Turn& turn);
  void expect_again(Psn psn);
  void receive_again(const wire::Packet& packet, Turn& turn);
  void refuse(RequestStatus status, Turn& turn);
  [[gnu::cold, gnu::noinline]] void refuse_packet(RequestStatus status, const wire::Packet& packet,
                                                  Turn& turn);
  [[nodiscard]] MemoryKey key_of(const wire::Packet& packet) const;
  [[gnu::noinline]] void receive_for_named(const wire::Packet& packet, Turn& turn);
  void perform(const wire::Packet& packet, Turn& turn);
  void complete_message(const wire::Packet& packet, const MessagePart& part, const CheckResult& check,
                        bool whole, Turn& turn);
  void report_message(InboundMessage::Kind kind, const wire::Packet& packet, uint32_t bytes, Turn& turn);
  [[gnu::noinline, gnu::cold]] void report_write(const wire::Packet& packet, Turn& turn);
  void wait_for_invalidation(const wire::Packet& packet, uint32_t bytes);
  void receive_part(const MessagePart& part, bool whole, const wire::Packet& packet, Turn& turn);
  // Apart, so that none keeps registers for the others.
  [[gnu::noinline]] void receive_whole_send(const wire::Packet& packet, Turn& turn);
  [[gnu::noinline]] void receive_whole_write(const wire::Packet& packet, Turn& turn);
  [[gnu::noinline]] void receive_send(const wire::Packet& packet, Turn& turn);
  [[gnu::noinline]] void receive_write(const wire::Packet& packet, Turn& turn);
  [[gnu::noinline]] void receive_operation(const wire::Packet& packet, Turn& turn);
  void receive_operation_of(wire::Family family, const wire::Packet& packet, Turn& turn);
  bool execute(const wire::Packet& packet, uint64_t& before, Turn& turn);
  static bool access_word(const wire::Packet& packet, const ResolvedRange& range, uint64_t& before);
  void fail_receive(queue::CompletionStatus status, Turn& turn);
  bool invalidate(const wire::Packet& packet, Turn& turn);
  void note_delivery(const wire::Packet& packet, const MessagePart& part, const Turn& turn);
  void arrived();
  void arrived_operation(uint32_t psns);
  [[gnu::noinline]] void arrived_after_gap(bool needs_ack);

  bool build_read_response(Response& read, port::TxFrame& frame, Turn& turn);
  [[gnu::noinline]] uint32_t build_response_run(uint32_t bytes, Turn& turn, uint32_t budget);
  bool find_data(const OperationRequest& read, uint64_t offset, Payload& payload, Turn& turn);
  bool resolve(const OperationRequest& read, uint64_t offset, uint32_t bytes, Turn& turn);
  bool stop_reading(Response& read, Turn& turn);
  void build_outcome(Response& response, port::TxFrame& frame);
  void build_answer(port::TxFrame& frame, Turn& turn);
  wire::Aeth acknowledge(Msn msn);
  [[nodiscard]] uint8_t credits() const;
  wire::Aeth refusal(Nak nak, Turn& turn);
  uint32_t say_msn(Msn msn);
  /// Whether ACKs carry credits: receives of a shared queue give none.
  [[nodiscard]] bool tells_credits() const {
    return send_.connection.credits && !send_.connection.receives.are_shared();
  }

  Sending& send_;
  Psn expected_;
  Psn ack_psn_;        // the PSN of the newest performed packet of a SEND or WRITE
  Msn msn_;            // messages performed
  Msn last_msn_sent_;  // in the newest AETH
  InboundMessage message_;
  [[no_unique_address]] ResponseQueue responses_;  // what follows uses its padding
  Psn newest_dropped_;         // packet that came early and has to come again, if ahead_dropped_
  SegmentCursor cursor_;       // of a SEND in its receive buffer
  Instant rnr_quiet_until_{};  // early packets are the tail of what the RNR NAK has stopped
  Nak nak_ = Nak::kNone;
  // Of a SEND that waits for an invalidation, all of which is placed; message_ holds its length and the key.
  bool waiting_solicited_ = false;
  bool waiting_ack_ = false;  // it asked for one

  bool undisturbed_ = true;     // none of what follows is the case
  bool nak_given_ = false;      // for the gap at expected_
  bool ahead_dropped_ = false;  // newest_dropped_ counts
  Reordering reordering_;
};

/// What `packet`, of the family, asks for.
OperationRequest request_in(wire::Family family, const wire::Packet& packet, uint32_t mtu);

/// Tells the ACK policy that the packet, of a SEND or WRITE, was performed.
inline void RcResponder::note_delivery(const wire::Packet& packet, const MessagePart& part,
                                       const Turn& turn) {
  send_.connection.acks.delivered(
      {.ends = part.ends, .completes = part.completes, .ack_requested = packet.headers.bth.ack_request},
      turn.delivery, turn.call, [&]() -> AckPolicy::Circumstances {
        return {.now = turn.now,
                .data_unacknowledged = send_.window.unanswered() > 0,
                .credit_wanted = tells_credits() && send_.connection.receives.waiting() == 0};
      });
}

/// The expected packet, of a SEND or WRITE, was performed.
inline void RcResponder::arrived() {
  ack_psn_ = expected_;
  ++expected_;
  if (!undisturbed_) [[unlikely]]
    arrived_after_gap(true);
}

/// The expected packet, a request with a response of `psns` packets, was performed. The response acknowledges
/// everything before it, and nothing else may acknowledge the request.
inline void RcResponder::arrived_operation(uint32_t psns) {
  expected_ += psns;
  send_.connection.acks.settled();
  if (!undisturbed_) [[unlikely]]
    arrived_after_gap(false);
}

}  // namespace uroce::qp
