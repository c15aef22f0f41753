#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <new>

#include "base/values/contract.h"
#include "base/values/identifiers.h"
#include "base/values/time.h"
#include "qp/attributes/attributes.h"
#include "qp/attributes/traffic.h"
#include "qp/congestion/notification_point.h"
#include "qp/connection/connection.h"
#include "qp/connection/placements.h"
#include "qp/connection/send_window.h"
#include "qp/connection/turn.h"
#include "qp/recovery/loss_recovery.h"
#include "qp/requester/completer.h"
#include "qp/requester/requester.h"
#include "qp/responder/responder.h"
#include "queue/completion_queue.h"
#include "queue/work_queue.h"
#include "wire/packet.h"

namespace uroce::qp {

/// What became of a packet.
enum class Receipt : uint8_t {
  kTaken,
  kStalled,  // the queue pair is stalled: deliver the packet again, before later ones, when it no longer is
  kEarly,    // packets before it are missing: deliver it when its PSN is due, or drop_out_of_order()
};

/// One queue pair: requester, completer and responder over shared state; the service decides which responder.
/// No clock, no randomness, no I/O: `now`, buffers and memory come with the Turn. All members are called on
/// the poller that owns the queue pair. After construction only modify() allocates.
class QueuePair final : public PlacementOwner {
 public:
  using Options = QueuePairOptions;

  explicit QueuePair(const Options& options);
  QueuePair(const QueuePair&) = delete;
  QueuePair& operator=(const QueuePair&) = delete;
  ~QueuePair();

  [[nodiscard]] State state() const { return send_.connection.state(); }
  /// Requests have left that the peer has not answered.
  [[nodiscard]] bool awaits_responses() const { return !send_.window.idle(); }
  /// The peer awaits an answer.
  [[nodiscard]] bool owes() const { return responder().owes(); }
  [[nodiscard]] QpNumber number() const { return send_.connection.number; }
  /// Current values, as ibv_query_qp wants them.
  [[nodiscard]] const Attributes& attributes() const { return send_.connection.attributes; }

  /// Its protection domain; none: an XRC target's.
  [[nodiscard]] DomainId domain() const {
    return send_.connection.is_xrc_target() ? DomainId{} : send_.connection.user.domain;
  }
  [[nodiscard]] Type type() const { return send_.connection.type; }
  // Null where it has none.
  [[nodiscard]] queue::CompletionQueue* send_completions() const { return send_.connection.send_completions; }
  [[nodiscard]] queue::CompletionQueue* receive_completions() const {
    return send_.connection.receive_completions;
  }
  /// What it has sent and received to the end, and what went wrong.
  [[nodiscard]] const Traffic& sent() const { return send_.window.done(); }
  [[nodiscard]] const Traffic& received() const { return responder().received(); }
  [[nodiscard]] const Incidents& incidents() const { return send_.connection.incidents; }
  /// Packets that the peer has not answered.
  [[nodiscard]] uint32_t unanswered() const { return send_.window.unanswered(); }

  /// How fast it may send, and what it has seen of the path to its peer.
  [[nodiscard]] CongestionState congestion() const;
  /// Another algorithm, which begins anew. 0, or EINVAL: UD has none; EOPNOTSUPP: without answers there are
  /// no round trips, which the algorithm needs; ENOMEM.
  int set_congestion_control(CongestionControl control);

  /// ibv_modify_qp after the face has translated it: 0, or an errno and nothing changed. EINVAL: the state
  /// table or the range of a value forbids it; EOPNOTSUPP: an attribute that this stack does not have;
  /// ENOMEM.
  int modify(const Attributes& attributes, AttributeMask mask, Turn& turn);

  /// Makes a queue pair that was constructed just now like one that modify() has given these attributes, with
  /// a state up to RTS, and that was not used since. False: there is no memory, and the queue pair can but
  /// end.
  [[nodiscard]] bool restore(const Attributes& attributes);
  /// After restore(), when nothing but modify() was called since: whether another queue pair can be restored
  /// from these attributes.
  [[nodiscard]] bool is_as_restored() const {
    return state() <= State::kRts && !send_.connection.has_errors();
  }

  /// A packet for this queue pair whose ICRC was right. Whatever it holds, the outcome is a state change by
  /// the rules, a NAK, or a counted drop.
  Receipt receive(const wire::Packet& packet, Turn& turn);
  /// Header prediction: the packet needs no check of the slow path, as nearly all do. The result holds for
  /// packets with the same header up to the PSN, until the queue pair has an error.
  [[nodiscard]] bool is_prediction_eligible(const wire::Packet& packet) const;
  /// receive() of such a packet.
  Receipt receive_predicted(const wire::Packet& packet, Turn& turn);

  /// A fault has the peer's request refused: if it is due, it is answered as if its checks had ended with
  /// `status`. False: it is not, or could not be answered so in earnest, and is for receive().
  bool refuse(const wire::Packet& packet, RequestStatus status, Turn& turn);

  /// A fault has its completion queues overflow, which breaks it as a real overflow does.
  void overflow_completions(Turn& turn);

  /// The PSN of the peer's request that is due, on services that keep to an order.
  [[nodiscard]] Psn due_request() const { return responder().expected(); }
  /// receive() would give the packet to the responder at once: it is a request of the peer.
  [[nodiscard]] bool awaits_request(const wire::Packet& packet) const;
  /// The PSN of the response that is due, when any is.
  [[nodiscard]] Psn due_response() const { return send_.window.oldest(); }
  /// An out-of-order packet was dropped from the buffer, and will not be delivered.
  void drop_out_of_order(const wire::Packet& packet, Turn& turn);
  /// The response with that PSN arrived out of order; those before it did not. True: it is due now, because
  /// it acknowledges them; false: they are missing.
  bool reach_response(Psn psn, Turn& turn);
  /// reach_response() would do nothing until the response that is due has come.
  [[nodiscard]] bool waits_for_response() const { return send_.recovery.awaits_gap(); }

  /// True when the queue pair may move to another poller between two turns: it is connected, and nothing of
  /// it is under way on its poller but what moved() takes along.
  [[nodiscard]] bool may_move() const;
  /// The queue pair belongs to another poller from now on, whose clock shows `by` more, and which counts
  /// calls for itself.
  void moved(Duration by);

  /// The application has posted: the turn is made for that, or has found its doorbell.
  void posted(const Turn& turn) { send_.connection.acks.posted(turn.call); }

  /// The queue pair waits for other pollers: nothing is received or sent, and pump() says that there is more,
  /// until a pump() finds that they have ended their turns.
  [[nodiscard]] bool stalled() const { return send_.connection.stalled; }

  /// XRC target: the shared receive queue goes. What was taken from it ends without a word, and the message
  /// it was taken for is refused.
  void forget_receives(const queue::SharedReceiveQueue& receives);

  /// Before its end: it gives back what its requests hold. False while it is stalled: come again in a turn
  /// after the next grace period.
  bool abandon(Turn& turn);

  void lost(const copy::MessageMark& mark, Turn& turn) override;

  /// After receive(): pump() would find something to do.
  [[nodiscard]] bool has_work() const {
    return state() != State::kRts || send_.connection.has_errors() || requester_.has_work() ||
           responder().owes() || notification_.owes_cnp();
  }

  /// Builds up to `budget` frames (>= 2, without a connection >= 1): responses and requests. True when there
  /// is more to send right now. In the error state it completes what was posted as flushed. Due after work
  /// was posted, packets were received, or expire() was called.
  bool pump(Turn& turn, uint32_t budget);

  /// Without a connection: how many of the datagrams that are due, up to `count_max`, go before the first for
  /// which `takes(to)` is false; `to` is a queue pair at an address of this port, or none. 1 where none is
  /// due.
  template <typename Takes>
  [[nodiscard]] uint32_t datagrams_until_refused(uint32_t count_max, Takes takes) const {
    UROCE_ASSERT(!send_.connection.connected);
    return state() == State::kRts ? requester_.datagrams_until_refused(count_max, takes) : count_max;
  }

  /// The part of pump() that answers the peer's requests. True when there is more to answer.
  bool answer(Turn& turn, uint32_t budget);

  /// Next moment at which expire() wants to be called; kNever for none. Changes in receive(), pump(),
  /// modify(), expire().
  [[nodiscard]] Instant deadline() const {
    return std::min(send_.recovery.deadline(), send_.connection.congestion.deadline());
  }
  void expire(Turn& turn);

 private:
  /// In this state, and with no error met.
  [[nodiscard]] bool admits(const wire::Packet& packet) const {
    return (admitted_ >> packet.row->traffic & 1) != 0 && !send_.connection.has_errors();
  }
  Receipt receive_slow_path(const wire::Packet& packet, Turn& turn);
  Receipt take_receipt();
  void receive_cnp(const wire::Packet& packet, Turn& turn);
  void note_marked(Receipt receipt, Turn& turn);
  bool notify(Turn& turn);
  void show(const wire::Packet& packet, Turn& turn);
  void note_admission();
  [[nodiscard]] Counter reason_to_drop(const wire::Packet& packet) const;
  bool provide_for(const Attributes& attributes, AttributeMask mask);
  void make_frame();
  void enter(State state, Turn& turn);
  [[gnu::cold, gnu::noinline]] void note_state(State from, State to, Failure failure, const Turn& turn);
  void reset();
  void reset_sends(Psn first);
  [[nodiscard]] CongestionOptions congestion_options() const;
  [[nodiscard]] Duration cnp_interval() const {
    return microseconds(send_.connection.transport.congestion.cnp_interval_us);
  }
  void begin_congestion();
  void drop_sends();
  void drop_receives();
  bool resume(Turn& turn);
  Pumped pump_requests(Turn& turn, uint32_t budget);
  void settle(Turn& turn);
  void change_state(Turn& turn);
  void end(Turn& turn);
  void note_drained();
  void flush_sends(Turn& turn);
  void flush(Turn& turn);

  static constexpr size_t kResponderBytes = 136;  // of the largest
  [[nodiscard]] Responder& responder() { return *std::launder(reinterpret_cast<Responder*>(&responder_)); }
  [[nodiscard]] const Responder& responder() const {
    return *std::launder(reinterpret_cast<const Responder*>(&responder_));
  }

  SendSide send_;
  Requester requester_;
  Completer completer_;
  alignas(Responder) std::array<std::byte, kResponderBytes> responder_;  // of the service's kind
  [[no_unique_address]] NotificationPoint notification_;                 // what follows uses its padding
  bool established_ = false;                                             // a packet came
  uint32_t admitted_ = 0;  // bit per traffic_of(): taken in this state, without anything else to be done
};

}  // namespace uroce::qp
