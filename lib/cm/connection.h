#pragma once

#include <algorithm>
#include <cstdint>

#include "base/tables/timer_wheel.h"
#include "base/values/identifiers.h"
#include "base/values/time.h"
#include "wire/cm_message.h"

namespace uroce::cm {

using wire::CommId;
using wire::ServiceId;

/// Between which addresses the messages of a connection travel, and how.
struct Address {
  Gid local;
  Gid remote;
  uint8_t traffic_class = 0;
  uint8_t hop_limit = 64;
  uint8_t service_level = 0;
  uint32_t flow_label = 0;
  /// The Ethernet address that the peer's last message came from, to which an answer may go without a
  /// question to the link; all zero: unknown.
  MacAddress link{};

  [[nodiscard]] bool operator==(const Address&) const = default;
};

enum class State : uint8_t {
  kFree,
  kReqSent,
  kReqReceived,
  kRepReceived,
  kRepSent,
  kEstablished,
  kDreqSent,
  kTimewait,
  kSidrReqSent,
  kSidrReqReceived,
  kClosed,  // nothing more will come; the consumer still knows it, or its last message has yet to leave
};
inline constexpr size_t kStateCount = 11;

/// Times of the protocol are 4.096 us times 2 to a code of five bits.
constexpr Duration cm_time(uint8_t code) { return nanoseconds(int64_t{4096} << (code & 31)); }

/// The code of the ACK timeout of a queue pair whose packets live as long as `packet_life_time` says on each
/// way, and whose peer may take its `ack_delay` for an ACK: that of the sum, rounded up, where one part is
/// small beside the other that of the larger. As Linux rounds (cm_ack_timeout).
constexpr uint8_t ack_timeout(uint8_t packet_life_time, uint8_t ack_delay) {
  constexpr int kCodeMax = 31;
  const int round_trip = packet_life_time + 1;
  const int apart = round_trip > ack_delay ? round_trip - ack_delay : ack_delay - round_trip;
  const int larger = std::max<int>(round_trip, ack_delay);
  return static_cast<uint8_t>(std::min(larger + (apart <= 1 ? 1 : 0), kCodeMax));
}

/// The queue pair that answers. With XRC it stands where end-to-end contexts have their number.
constexpr QpNumber queue_pair_of(const wire::CmRep& rep) {
  return rep.qp != QpNumber{} ? rep.qp : QpNumber{rep.local_eecn};
}

/// One end of a connection, or of the resolution of a service. Belongs to its Agent.
struct Connection : TimerNode {
  State state = State::kFree;
  bool attended = false;  // the consumer has not released it
  bool due = false;       // `last` has to be sent; then it is in the agent's list
  bool unsent = false;    // the timer is for another attempt to send it
  CommId local;
  CommId remote;  // 0 until the peer has told
  Address address;
  uint64_t consumer = 0;  // the consumer's name for it
  QpNumber local_qp;
  QpNumber remote_qp;
  uint64_t remote_guid = 0;          // of the peer's channel adapter
  uint64_t request_transaction = 0;  // of the REQ or SIDR_REQ that it was made by
  uint64_t transaction = 0;          // of what is sent: that, or of a DREQ
  uint32_t listener = 0;             // whose backlog it is in
  bool half_open = false;            // in a listener's list of half-open connections:
  uint32_t half_open_of = 0;
  bool released_timewait = false;  // in the list of those:

  wire::CmMad last;  // what was sent last, and is sent again
  uint8_t repeats_left = 0;
  uint8_t repeats = 0;       // how often a message is sent again
  Duration answer_within{};  // after that it is
  // Of a REP or DREQ, whose time our clock bounds whatever the peer said:
  Duration again_after{};
  Instant first_sent = kNever;
  Instant ends = kNever;  // what has no answer by then gets none
  Duration timewait{};

  // Indexes of other connections, 0: none.
  uint32_t next_free = 0;
  uint32_t next_due = 0;
  uint32_t next_of_comm = 0;
  uint32_t next_of_qp = 0;
  uint32_t next_half_open = 0;
  uint32_t previous_half_open = 0;
  uint32_t next_timewait = 0;
  uint32_t previous_timewait = 0;
};

}  // namespace uroce::cm
