#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "base/identifiers.h"
#include "base/psn.h"
#include "queue/shared_receive_queue.h"

namespace uroce::qp {

/// What was asked for: a READ, the whole of it or the missing rest, or one packet about no more than an
/// address.
struct ResponseRange {
  Psn psn;  // of the first response packet
  uint32_t packets = 0;
  uint64_t address = 0;
  MemoryKey rkey;
  uint32_t length = 0;   // of a READ
  queue::SrqNumber srq;  // XRC: whose domain the key is of

  [[nodiscard]] Psn end() const { return psn + packets; }
};

/// What the responder owes for one request that is answered by itself, and remembers of it so that it can be
/// answered again: a READ is performed anew, of anything else the outcome is kept.
struct Response {
  enum class Kind : uint8_t {
    kRead,
    kAtomic,
    kDone,  // ATOMIC WRITE, FLUSH: there is no more to say than that
  };
  Kind kind = Kind::kRead;
  ResponseRange original;
  uint32_t msn = 0;
  uint64_t value = 0;  // kAtomic: what was there before

  // Kept by the queue.
  ResponseRange due;      // what is being answered: the original, or part of it
  uint32_t sent = 0;      // packets of `due` that went out
  bool pending = false;   // not all of `due` went out
  bool answered = false;  // all of the original, once
};

/// The responder's resources (protocol.md 8): the newest max_dest_rd_atomic such requests in PSN order. At
/// most one answer per request is under way; asking again starts it over, so the queue is bounded whatever
/// the network duplicates.
class ResponseQueue {
 public:
  explicit ResponseQueue(uint8_t responses_max)
      : max_(responses_max > 0 ? responses_max : 1u), responses_(std::bit_ceil(max_)) {}

  void clear() { first_ = count_ = pending_ = answered_ = 0; }

  /// Makes room among `limit` resources (at most the constructor's) for a request that is new; false when as
  /// many are outstanding. Forgets the oldest that was answered.
  bool make_room(uint32_t limit);
  /// After make_room(): the newest.
  void add(const Response& response);

  /// A request that was seen before comes again, a READ in part or whole; false when it is not remembered or
  /// asks for something else than the original.
  bool repeat(Response::Kind kind, const ResponseRange& range, uint32_t mtu);

  /// Forgets the requests at and behind `psn`.
  void drop_from(Psn psn);

  /// The pending answer with the lowest PSN, or nullptr. Valid until the next change.
  Response* next();
  /// The next packet of what next() returned went out.
  void sent_one(Response& response);

 private:
  Response& at(uint32_t i) { return responses_[(first_ + i) & (responses_.size() - 1)]; }
  void drop_oldest();

  const uint32_t max_;
  std::vector<Response> responses_;  // a ring, of a power of two
  uint32_t first_ = 0;
  uint32_t count_ = 0;
  uint32_t pending_ = 0;   // of these
  uint32_t answered_ = 0;  // the oldest so many are not pending
};

}  // namespace uroce::qp
