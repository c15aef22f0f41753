#pragma once

#include <cstdint>
#include <utility>

#include "base/tables/grown_ring.h"
#include "base/values/contract.h"
#include "base/values/sequence_number.h"
#include "qp/acknowledgement/credits.h"
#include "qp/attributes/traffic.h"
#include "queue/work_queue.h"

namespace uroce::qp {

/// A packet may be kept until those before it have come (Receipt::kEarly) if it is less than so far ahead: as
/// many as a requester of ours has under way at most.
inline constexpr uint32_t kKeptAhead = 1024;

/// Where the requester stands between the send queue and the PSN space:
///
///      retired()            number                started            published()
///   ---- done ----|-- sent, not yet answered --|-- sent before a rewind --|-- not yet begun --
///              oldest()                      next()                   sent_end()          (PSNs)
///
/// Every work request gets its PSNs when its first packet is built. A request is retired as soon as all its
/// PSNs are answered, so the oldest unanswered PSN always lies in the oldest request, and a rewind takes
/// constant time. A local operation takes none and is started when it was executed.
class SendWindow {
 public:
  /// Parts of READs, as powers of two: as a rule, and at least while the window is a small one, beside which
  /// 64 packets would be much.
  static constexpr uint8_t kPartShift = 6;
  static constexpr uint8_t kShortPartShift = 2;

  /// Unanswered PSNs at which no further request is begun: a window fits the receive ring of the peer.
  static constexpr uint32_t kPackets = 256;
  /// Unanswered PSNs at which no further request is begun while a peer that buffers out-of-order packets
  /// waits for packets that were lost: most of what is unanswered is not in its ring any more.
  static constexpr uint32_t kPacketsMax = kKeptAhead;
  /// READ responses count, too. A READ is asked for in parts of at most that many: they fit our receive ring,
  /// and when one is lost, not more than the rest of a part comes in vain.
  static constexpr uint32_t kReadPackets = 1u << kPartShift;

  explicit SendWindow(queue::SendQueue& queue);

  /// Has room for so many reads() from now on; at first for none. False: there is no memory for it.
  [[nodiscard]] bool provide(uint32_t reads) {
    return read_ends_.grow(reads, reads_first_, reads_first_ + reads_count_);
  }

  /// Nothing sent yet; the first packet will be `first`.
  void reset(Psn first);

  [[nodiscard]] Psn oldest() const { return oldest_; }
  [[nodiscard]] Psn next() const { return next_; }
  [[nodiscard]] Psn sent_end() const { return sent_end_; }
  [[nodiscard]] uint32_t unanswered() const { return distance(oldest_, next_); }

  // The oldest request: the one that oldest() belongs to, when anything is unanswered.
  [[nodiscard]] queue::SendRequest& head() { return queue_.at(queue_.retired()); }
  [[nodiscard]] uint32_t head_packet(const queue::SendRequest& head) const {
    return distance(head.first_psn, oldest_);
  }

  // The request that next() belongs to.
  [[nodiscard]] uint32_t number() const { return number_; }
  [[nodiscard]] queue::SendRequest& current() { return queue_.at(number_); }
  [[nodiscard]] uint32_t current_packet(const queue::SendRequest& current) const {
    return distance(current.first_psn, next_);
  }
  [[nodiscard]] bool current_is_head() const { return number_ == queue_.retired(); }
  [[nodiscard]] bool current_started() const { return number_ != started_; }

  /// Gives the current request, which has not started, its PSNs.
  void start(queue::SendRequest& current, uint32_t packets);
  /// The current request, a local operation that has not started, was executed: on to the next.
  void executed();
  /// The request of that number has started, or, being a local operation, was executed.
  [[nodiscard]] bool has_started(uint32_t number) const {
    return static_cast<int32_t>(number - started_) < 0;
  }
  /// Everything that has started is complete.
  [[nodiscard]] bool idle() const { return queue_.retired() == started_; }
  /// The current request is a local operation that was executed before a rewind: on to the next.
  void pass() {
    UROCE_ASSERT(current_started() && current().packets == 0);
    ++number_;
  }
  /// Nothing is left to do for the head, and all before it is answered.
  [[nodiscard]] bool head_is_executed() {
    if (executed_ == 0) [[likely]]
      return false;
    return queue_.retired() != started_ && head().packets == 0;
  }
  void retire_executed();
  /// All before `end` are answered, and with them the oldest requests, `messages` of one message each.
  void retire_messages(const Traffic& messages, Psn end);
  /// Nothing is to be sent again, and no packet of the current request has gone.
  [[nodiscard]] bool at_end() const {
    return number_ == started_ && next_ == unassigned_ && next_ == sent_end_;
  }
  /// One of a run of requests of one packet each, at_end(), has that of `psn`.
  void start_ahead(queue::SendRequest& request, Psn psn) {
    UROCE_ASSERT(at_end() && &request == &queue_.at(number_ + static_cast<uint32_t>(psn - next_)));
    request.first_psn = psn;
    request.packets = 1;
  }
  /// The packets of the next `count` requests, which start_ahead() started, went out.
  void sent_run(uint32_t count);
  /// The current request's packet(s) next() .. next() + psns - 1 went out. True: once more.
  bool sent(uint32_t psns);
  /// The last packet of the current request went out: on to the next. To the peer it was `messages` messages.
  void end_current(uint32_t messages);
  /// A READ for all PSNs before next() went out, or something else that is answered by itself: for the window
  /// an atomic is a READ of one packet.
  void read_sent();
  /// Each of the newest `count` packets is a READ of its own.
  void reads_sent(uint32_t count);
  /// How many messages the peer counts: a READ is as many messages as the parts in which it is asked for. All
  /// other requests are one.
  static uint32_t messages_of_read(const queue::SendRequest& read) {
    return ((read.packets - 1) >> read.part_shift) + 1;
  }

  // End-to-end credits. Messages are numbered from 1 on, modulo 2^24; local operations are none.
  /// The peer has completed `msn` messages, and has receives for as many more as the code says.
  void take_credits(Msn msn, uint8_t code) {
    const bool before = std::exchange(limited_, code < kCreditsOfCode.size());
    if (!limited_) return;
    // What was promised stays, whatever order the answers come in.
    if (const Msn limit = msn + kCreditsOfCode[code]; !before || limit.after(limit_)) limit_ = limit;
  }
  /// The peer has a receive for the current message, as far as we know.
  [[nodiscard]] bool has_credit() const { return !limited_ || !message_.after(limit_); }
  /// The peer has a receive for the current message and for none behind it, as far as we know.
  [[nodiscard]] bool credit_ends() const { return limited_ && message_ == limit_; }
  /// How many messages from the current one on it has a receive for.
  [[nodiscard]] uint32_t credits() const {
    if (!limited_) return UINT32_MAX;
    return message_.after(limit_) ? 0 : static_cast<uint32_t>(limit_ - message_) + 1;
  }

  /// READs that went out (since the last rewind) and are not fully answered.
  [[nodiscard]] uint32_t reads() const { return reads_count_; }

  /// All before `end` are answered; what is newly so belongs to the head. After all that is answered at once
  /// follows settle().
  void answered_before(Psn end) {
    UROCE_ASSERT(!end.before(oldest_) && !end.after(sent_end_));
    oldest_ = end;
  }
  /// The PSN behind its last one.
  [[nodiscard]] static Psn end_of(const queue::SendRequest& started) {
    return started.first_psn + started.packets;
  }
  /// The head retires, all of which is answered; it was `messages` messages to the peer.
  void retire_head(uint32_t messages);
  /// After answered_before(): READs that are answered are no reads() any more, and next() is not before
  /// oldest().
  void settle();

  /// The messages that have retired.
  [[nodiscard]] const Traffic& done() const { return done_; }

  /// Everything unanswered goes out again.
  void rewind();
  /// Where the window is in what it sends.
  struct Place {
    Psn next;
    uint32_t number;
    Msn message;
    uint32_t reads;
    Psn read_end;  // of the oldest READ, if there is any
  };
  /// The oldest packet goes out again by itself, or all of a READ that is missing; then the window goes on
  /// where it was.
  Place visit_oldest();
  void return_to(const Place& place);
  /// The newest packet goes out again, which is unanswered and not of a READ.
  void step_back();
  /// What the packet before next() is of, or the one at next() where all that was sent goes once more.
  [[nodiscard]] queue::SendOperation newest_operation();

 private:
  /// Invariants; not between answered_before() and settle(), when next() may be before oldest().
  [[nodiscard]] bool is_sound() const;
  static uint32_t distance(Psn from, Psn to) { return (to.value() - from.value()) & Psn::kMask; }

  queue::SendQueue& queue_;
  Psn oldest_;
  Psn next_;
  Psn sent_end_;
  Psn unassigned_;         // first PSN of the next request to start
  Msn message_{1};         // number of the current message ...
  Msn head_message_{1};    // ... and of the oldest
  Msn limit_;              // messages up to this one have a receive, when limited_
  uint32_t number_ = 0;    // like retired() and published(): free-running
  uint32_t started_ = 0;   // requests before it have PSNs
  uint32_t executed_ = 0;  // local operations that are not retired
  uint32_t reads_first_ = 0;
  uint32_t reads_count_ = 0;
  [[no_unique_address]] GrownRing<Psn> read_ends_;  // of the READ requests under way, in PSN order
  bool limited_ = false;                            // not before the peer says so; in the padding of the ring
  Traffic done_;
};

// In line, for they are called for every packet.

inline bool SendWindow::is_sound() const {
  const uint32_t retired = queue_.retired();
  return !next_.before(oldest_) && !next_.after(sent_end_) && !sent_end_.after(unassigned_) &&
         number_ - retired <= started_ - retired && executed_ <= started_ - retired &&
         reads_count_ <= read_ends_.size() && unanswered() < kPacketsMax + kReadPackets;
}

inline void SendWindow::start(queue::SendRequest& current, uint32_t packets) {
  UROCE_ASSERT(!current_started() && &current == &this->current());
  UROCE_ASSERT((packets == 0) == queue::is_local(current.operation));
  current.first_psn = unassigned_;
  current.packets = packets;
  unassigned_ += packets;
  ++started_;
}

inline bool SendWindow::sent(uint32_t psns) {
  UROCE_ASSERT(current_started() && current_packet(current()) + psns <= current().packets);
  const bool again = next_ != sent_end_;
  next_ += psns;
  if (!again || next_.after(sent_end_)) [[likely]]
    sent_end_ = next_;
  UROCE_ASSERT(is_sound());
  return again;
}

inline void SendWindow::sent_run(uint32_t count) {
  UROCE_ASSERT(at_end());
  next_ += count;
  sent_end_ = unassigned_ = next_;
  number_ += count;
  started_ = number_;
  message_ += count;
  UROCE_ASSERT(is_sound());
}

inline void SendWindow::end_current(uint32_t messages) {
  UROCE_ASSERT(current_started() && current_packet(current()) == current().packets);
  message_ += messages;
  ++number_;
}

inline void SendWindow::read_sent() {
  UROCE_ASSERT(reads_count_ < read_ends_.size());
  read_ends_[reads_first_ + reads_count_++] = next_;
}

inline void SendWindow::reads_sent(uint32_t count) {
  UROCE_ASSERT(reads_count_ + count <= read_ends_.size());
  for (uint32_t left = count; left > 0; --left)
    read_ends_[reads_first_ + reads_count_++] = next_ - (left - 1);
}

inline void SendWindow::retire_head(uint32_t messages) {
  UROCE_ASSERT(has_started(queue_.retired()) && oldest_ == end_of(head()));
  head_message_ += messages;
  done_.add(head().length);
  queue_.retire();
}

inline void SendWindow::retire_messages(const Traffic& messages, Psn end) {
  const auto count = static_cast<uint32_t>(messages.messages);
  answered_before(end);
  head_message_ += count;
  done_.add(messages);
  queue_.retire(count);
}

inline void SendWindow::settle() {
  for (; reads_count_ > 0 && !read_ends_[reads_first_].after(oldest_); --reads_count_) ++reads_first_;
  // What was answered while it was waiting to be sent again need not be sent.
  if (next_.before(oldest_)) [[unlikely]] {
    next_ = oldest_;
    number_ = queue_.retired();
    message_ = head_message_;
  }
  UROCE_ASSERT(is_sound());
}

}  // namespace uroce::qp
