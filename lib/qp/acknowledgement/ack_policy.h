// When a responder acknowledges: delayed acknowledgement with a predictor.
//
// TCP delays an ACK for up to 500 ms, so that data in the other direction carries it (RFC 1122 section
// 4.2.3.2, RFC 5681 section 4.2). Three things differ here. An RC ACK is a packet of its own: a delay saves
// none, but the reply, which the peer waits for, leaves before it. An ACK is delayed only if a reply is
// predicted. The requester says which packets are to be acknowledged, so no count of segments does.
//
// - ACK in the turn that delivers the message, unless the application replied at once to the last 64. A
//   program may end or sleep after any completion, and its peer must have the ACK by then. Cost: a program
//   with a predicted reply that ends without exit() before its next call takes the ACK with it
//   (tests/programs/last_ack_test.py).
// - A delayed ACK leaves in the next turn, behind the data of that turn. Nothing that the peer need not see
//   first may come before the reply. Cost: if there is no reply, the ACK is a turn late.
// - WRITEs without a completion have a predictor of their own, and their ACK has a deadline of 50 us if a
//   background thread placed them or a message of ours is unacknowledged. A program that watches its memory
//   makes no calls by which its patience could be measured. Cost: one late ACK when no reply comes, which
//   halves the count of the predictor.
// - A post one call after the program's own message was acknowledged also is a reply at once. ib_write_lat
//   polls for its completion before it looks at memory. Cost: a post that is no reply may count as one.
// - Bursts of more than four packets are acknowledged at once. The peer may wait for ACKs to go on sending.
//   Cost: a reply to one of them leaves behind the ACK.
// - A delayed ACK leaves in a burst of its own behind the reply's, unless it has the peer's only credit. The
//   reply is at the port sooner, but a peer without a credit may not send its next message. Cost: a second
//   burst, or with the only credit a reply that waits for the ACK.
// - At the end of a queue pair or a process every ACK that is owed leaves. No later turn would send it. Cost:
//   the reply that was predicted, if it comes after all, leaves behind it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/values/time.h"
#include "qp/acknowledgement/piggyback_predictor.h"

namespace uroce::qp {

/// How a poller's turn delivers the messages that it receives.
enum class Delivery : uint8_t {
  kNone,        // it received nothing, or a long burst
  kCall,        // a few packets in the application's call: the next one may post a reply
  kBackground,  // a few packets on another thread: the application may see a WRITE in its memory at any time
};

/// When an ACK leaves.
enum class AckTime : uint8_t {
  kNotAtAll,    // none is owed
  kWithData,    // with the next data, or else in the next turn
  kAtDeadline,  // with the next data, or else at a deadline
  kAfterData,   // when the data that was built in this turn has left
  kNow,
};

/// When a queue pair acknowledges the peer's SENDs and WRITEs; why, at the head of this file. Takes events,
/// and answers due() and data_built() with an AckTime. One for each queue pair, used by its poller alone.
/// Calls of the application have the numbers of Turn::call.
class AckPolicy {
 public:
  /// How long an ACK waits for a reply that the application's next call need not be. A thread that watches
  /// its memory may have to wait until the one that made the turn gives it the CPU, or for the ACK of what it
  /// sent before, which leaves the peer behind its reply.
  static constexpr Duration kDelayMax = microseconds(50);
  /// In a burst of more packets ACKs leave at once.
  static constexpr size_t kDelayedBurstMax = 4;

  /// A packet of a SEND or WRITE.
  struct Packet {
    bool ends = false;           // its message
    bool completes = false;      // that message completes a receive; else its bytes are all there is to see
    bool ack_requested = false;  // by the peer
  };
  /// What else a delay depends on, when a packet is delivered.
  struct Circumstances {
    Instant now;
    bool data_unacknowledged = false;  // a message of ours is
    bool credit_wanted = false;        // the peer may send its next message by the credit of this ACK only
  };

  /// How the packets of a burst are delivered, in the application's call or not.
  static constexpr Delivery delivery_of(size_t burst, bool in_call) {
    if (burst > kDelayedBurstMax) return Delivery::kNone;
    return in_call ? Delivery::kCall : Delivery::kBackground;
  }

  /// A packet was executed, so that the application sees what it brought; the turn is that of `call`.
  /// `circumstances()` is called if its ACK is delayed.
  template <typename Ask>
  void delivered(const Packet& packet, Delivery delivery, uint64_t call, Ask circumstances) {
    const bool may_follow =
        delivery == Delivery::kCall || (delivery == Delivery::kBackground && !packet.completes);
    const bool reply_predicted =
        packet.ends && may_follow && (packet.completes ? completions_ : writes_).delivered(call);
    if (!packet.ack_requested) return;
    if (!reply_predicted) {
      state_ = State::kNow;
    } else {
      delay(packet, delivery, circumstances());
    }
  }
  /// An ACK is owed that no reply can be expected to: of a duplicate, of a gap that was filled, of an
  /// invalidation that is over.
  void require() { state_ = State::kNow; }
  /// All that was executed is acknowledged: by the ACK, by a NAK, or by the response to a READ or an
  /// atomic.
  void settled() { state_ = State::kNone; }
  /// The application's call `call` has posted.
  void posted(uint64_t call) {
    completions_.posted(call, own_acknowledged_in_);
    writes_.posted(call, own_acknowledged_in_);
  }
  /// A request of ours was acknowledged in the turn of `call`.
  void own_acknowledged(uint64_t call) { own_acknowledged_in_ = static_cast<uint32_t>(call); }
  /// The queue pair or its process ends: no reply comes any more.
  void ends() {
    if (owes()) state_ = State::kNow;
  }
  /// The queue pair belongs to another poller, whose clock shows `by` more and which counts calls for itself.
  void moved(Duration by);

  /// An ACK is owed.
  [[nodiscard]] bool owes() const { return state_ != State::kNone; }
  /// When the ACK that is owed leaves; once in a turn, before our own requests are built.
  AckTime due(Instant now, Delivery delivery) {
    if (state_ == State::kNow) return AckTime::kNow;
    return state_ == State::kNone ? AckTime::kNotAtAll : due_of_delayed(now, delivery);
  }
  /// When one leaves that due() has held back: our own requests of the turn are built, if there are `any`.
  AckTime data_built(bool any);

 private:
  /// In the order in which a packet moves the state up.
  enum class State : uint8_t {
    kNone,
    kDelivered,   // delayed, and its first turn not over ...
    kNextTurn,    // ... or over: it leaves in the next one
    kDeadline,    // delayed until deadline_
    kBehindData,  // of this turn
    kNow
  };

  [[gnu::noinline]] void delay(const Packet& packet, Delivery delivery, const Circumstances& circumstances);
  [[gnu::noinline]] AckTime due_of_delayed(Instant now, Delivery delivery);

  PiggybackPredictor completions_;    // replies to messages that complete a receive ...
  PiggybackPredictor writes_;         // ... and to WRITEs that the application finds in its memory
  uint32_t own_acknowledged_in_ = 0;  // the call, modulo 2^32
  State state_ = State::kNone;
  bool credit_wanted_ = false;  // by the peer, from the ACK that is delayed
  Instant deadline_{};          // in State::kDeadline
};

}  // namespace uroce::qp
