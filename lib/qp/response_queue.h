#pragma once

#include <cstdint>
#include <vector>

#include "base/identifiers.h"
#include "base/psn.h"

namespace uroce::qp {

/// A READ as it was asked for: the whole of it, or the missing rest.
struct ReadRange {
  Psn psn;  // of the first response packet
  uint32_t packets = 0;
  uint64_t address = 0;
  MemoryKey rkey;
  uint32_t length = 0;

  [[nodiscard]] Psn end() const { return psn + packets; }
};

/// What the responder owes for one READ, and remembers of it so that it can be answered again.
struct ReadResponse {
  ReadRange original;
  uint32_t msn = 0;

  ReadRange due;          // what is being answered: the original, or part of it
  uint32_t sent = 0;      // packets of `due` that went out
  bool pending = false;   // not all of `due` went out
  bool answered = false;  // all of the original, once
};

/// The responder's resources (protocol.md 8): the newest max_dest_rd_atomic READs in PSN order. At most one
/// answer per READ is under way; asking again starts it over, so the queue is bounded whatever the network
/// duplicates.
class ResponseQueue {
 public:
  explicit ResponseQueue(uint8_t reads_max) : reads_(reads_max > 0 ? reads_max : 1u) {}

  void clear() { first_ = count_ = pending_ = 0; }

  /// Makes room among `limit` resources (at most the constructor's) for a READ that is new; false when as
  /// many are outstanding. Forgets the oldest that was answered.
  bool make_room(uint32_t limit);
  /// After make_room(): the newest READ.
  void add(const ReadRange& range, uint32_t msn);

  /// A READ that was seen before is asked for again, in part or whole; false when it is not remembered or
  /// asks for something else than the original.
  bool repeat(const ReadRange& range, uint32_t mtu);

  /// Forgets the READs at and behind `psn`.
  void drop_from(Psn psn);

  /// The pending answer with the lowest PSN, or nullptr. Valid until the next change.
  ReadResponse* next();
  /// The next packet of what next() returned went out.
  void sent_one(ReadResponse& read);

 private:
  ReadResponse& at(uint32_t i) { return reads_[(first_ + i) % reads_.size()]; }

  std::vector<ReadResponse> reads_;  // a ring
  uint32_t first_ = 0;
  uint32_t count_ = 0;
  uint32_t pending_ = 0;  // of these
};

}  // namespace uroce::qp
