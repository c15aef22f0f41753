#pragma once

#include <cstdint>

#include "base/tables/grown_ring.h"
#include "base/values/contract.h"
#include "base/values/identifiers.h"
#include "base/values/sequence_number.h"
#include "queue/shared_receive_queue.h"

namespace uroce::qp {

/// A request that is answered by itself: a READ, the whole of it or the missing rest, or one packet about no
/// more than an address.
struct OperationRequest {
  enum class Kind : uint8_t {
    kRead,
    kAtomic,
    kDone,  // ATOMIC WRITE, FLUSH: there is no more to say than that
  };
  uint64_t address = 0;
  Psn psn;  // of the first response packet
  uint32_t packets = 0;
  MemoryKey rkey;
  uint32_t length = 0;   // of a READ
  queue::SrqNumber srq;  // XRC: whose domain the key is of
  Kind kind = Kind::kRead;
};

/// What the responder owes for one such request, and remembers of it so that it can be answered again: a READ
/// is performed anew, of anything else the outcome is kept.
struct Response {
  OperationRequest request;
  uint64_t value = 0;  // kAtomic: what was there before
  Msn msn;

  // Kept by the queue. What is being answered, of the request's packets: all of it, or a part.
  uint32_t first = 0;
  uint32_t next = 0;  // those before it went out
  uint32_t end = 0;
  uint32_t bytes_end = 0;  // of the READ, up to `end`
  bool answered = false;   // all of the request, once

  [[nodiscard]] bool pending() const { return next != end; }
  /// A READ that is answered by one packet.
  [[nodiscard]] bool is_short_read() const {
    return request.packets == 1 && request.kind == OperationRequest::Kind::kRead && bytes_end > 0;
  }
};
static_assert(sizeof(Response) == 64);

/// The responder's resources (lib/README.md, wire fact 8): the newest max_dest_rd_atomic such requests in PSN
/// order. At most one answer per request is under way; asking again starts it over, so the queue is bounded
/// whatever the network duplicates.
class ResponseQueue {
 public:
  /// Has at least so many resources from now on; at first none. False: there is no memory for
  /// them.
  [[nodiscard]] bool provide(uint32_t resources) {
    return responses_.grow(resources, first_, first_ + count_);
  }

  void clear() { first_ = count_ = pending_ = answered_ = 0; }

  /// Makes room among `limit` resources (at most as many as there are) for a request that is new; false when
  /// as many are outstanding. Forgets the oldest that was answered.
  bool make_room(uint32_t limit);
  /// After make_room(): the newest, of which nothing went out.
  void add(const OperationRequest& request, Msn msn, uint64_t value);

  /// A request that was seen before comes again, a READ in part or whole; false when it is not remembered or
  /// asks for something else than the original.
  bool repeat(const OperationRequest& request, uint32_t mtu);

  /// Forgets the requests at and behind `psn`.
  void drop_from(Psn psn);

  /// Whether an answer is under way to a request behind `psn`. It acknowledges `psn`.
  [[nodiscard]] bool answers_behind(Psn psn) const;

  /// Whether a plain ACK may name `psn`: it is not that of a remembered request, and the requests before it
  /// were answered to the end, once. Only for assertions.
  [[nodiscard]] bool permits_ack(Psn psn) const;

  /// How many requests have an answer under way.
  [[nodiscard]] uint32_t pending() const { return pending_; }
  /// The pending answer with the lowest PSN, or nullptr. Valid until the next change.
  Response* next();
  /// The next packet of what next() returned went out.
  void sent_one(Response& response);
  /// What next() returned, a short READ, went out.
  void sent_short(Response& response);
  /// The rest of what next() returned does not go out.
  void give_up(Response& response);

 private:
  [[nodiscard]] bool is_sound() const {
    return count_ <= responses_.size() && pending_ <= count_ && answered_ + pending_ <= count_;
  }
  Response& at(uint32_t i) {
    UROCE_ASSERT(i < responses_.size());
    return responses_[first_ + i];
  }
  [[nodiscard]] const Response& at(uint32_t i) const {
    UROCE_ASSERT(i < responses_.size());
    return responses_[first_ + i];
  }
  void drop_oldest();

  [[no_unique_address]] GrownRing<Response> responses_;  // what follows uses its padding
  uint32_t first_ = 0;
  uint32_t count_ = 0;
  uint32_t pending_ = 0;   // of these
  uint32_t answered_ = 0;  // the oldest so many are not pending
};

// In line, for they are called for every READ.

inline void ResponseQueue::drop_oldest() {
  UROCE_ASSERT(count_ > 0);
  if (at(0).pending()) [[unlikely]]
    --pending_;
  if (answered_ > 0) --answered_;
  ++first_;
  --count_;
  UROCE_ASSERT(is_sound());
}

inline bool ResponseQueue::make_room(uint32_t limit) {
  UROCE_ASSERT(limit <= responses_.size());
  while (count_ >= limit) {
    // A peer within its limit asks for something new only after the oldest was answered to the end.
    if (count_ == 0 || !at(0).answered) [[unlikely]]
      return false;
    drop_oldest();
  }
  return true;
}

inline void ResponseQueue::add(const OperationRequest& request, Msn msn, uint64_t value) {
  UROCE_ASSERT(count_ < responses_.size() && request.packets > 0);
  Response& added = at(count_++);
  // One by one: a copy of the whole would wait until all of them are stored.
  added.request.address = request.address;
  added.request.psn = request.psn;
  added.request.packets = request.packets;
  added.request.rkey = request.rkey;
  added.request.length = request.length;
  added.request.srq = request.srq;
  added.request.kind = request.kind;
  added.value = value;
  added.msn = msn;
  added.first = added.next = 0;
  added.end = request.packets;
  added.bytes_end = request.length;
  added.answered = false;
  ++pending_;
  UROCE_ASSERT(is_sound());
}

inline Response* ResponseQueue::next() {
  if (pending_ == 0) return nullptr;
  while (!at(answered_).pending()) ++answered_;
  UROCE_ASSERT(is_sound() && at(answered_).end <= at(answered_).request.packets);
  return &at(answered_);
}

inline void ResponseQueue::sent_one(Response& response) {
  UROCE_ASSERT(response.pending() && &response == &at(answered_));
  ++response.next;
  if (response.next == response.request.packets) response.answered = true;
  if (response.next == response.end) give_up(response);
}

inline void ResponseQueue::sent_short(Response& response) {
  UROCE_ASSERT(response.is_short_read() && response.end == 1);
  response.answered = true;
  give_up(response);
}

inline void ResponseQueue::give_up(Response& response) {
  UROCE_ASSERT(pending_ > 0 && &response == &at(answered_));
  response.next = response.end;
  --pending_;
  ++answered_;
  UROCE_ASSERT(is_sound());
}

}  // namespace uroce::qp
