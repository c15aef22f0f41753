#pragma once

#include <bit>
#include <cstdint>
#include <span>

#include "base/identifiers.h"
#include "base/number_block.h"
#include "copy/message_mark.h"
#include "mem/grace_period.h"
#include "mem/invalidation.h"
#include "mem/region.h"
#include "qp/attributes.h"
#include "qp/congestion/options.h"
#include "qp/congestion/rate_limit.h"
#include "qp/event.h"
#include "qp/notice.h"
#include "qp/receive_requests.h"
#include "qp/reply_habit.h"
#include "qp/send_window.h"
#include "qp/traffic.h"
#include "queue/completion_queue.h"
#include "queue/shared_receive_queue.h"
#include "queue/work_queue.h"
#include "wire/frame.h"

namespace uroce::qp {

/// The part that waits for the end of the connection's invalidation.
enum class Waiter : uint8_t {
  kNone,
  kSend,     // the oldest send work request: LOCAL_INV, or a READ that is complete but for this
  kReceive,  // a SEND with invalidate that is placed
};

constexpr wire::Service service_of(Type type) {
  switch (type) {
    case Type::kRc:
      break;
    case Type::kUc:
      return wire::Service::kUc;
    case Type::kUd:
      return wire::Service::kUd;
    case Type::kXrcSend:
    case Type::kXrcReceive:
      return wire::Service::kXrc;
  }
  return wire::Service::kRc;
}
constexpr bool is_reliable(Type type) { return type != Type::kUc && type != Type::kUd; }

/// Longest message: what `max_msg_sz` of a port says.
inline constexpr uint32_t kMessageBytesMax = 1u << 31;

/// The P_Key that everybody has. Bit 15 of a P_Key is the membership, the others are the partition.
inline constexpr uint16_t kDefaultPartition[] = {0xFFFF};
inline constexpr uint16_t kFullMember = 0x8000;

/// Two members of a partition talk unless both are limited ones.
constexpr bool may_talk(uint16_t ours, uint16_t theirs) {
  return ((ours ^ theirs) & ~kFullMember & 0xFFFF) == 0 && ((ours | theirs) & kFullMember) != 0;
}

struct QueuePairOptions {
  Type type = Type::kRc;
  QpNumber number;
  NumberBlock numbers = {};  // of this process
  mem::QpIdentity identity;  // that windows are bound to
  DomainId domain;
  bool signal_all = false;
  bool reserved_lkey = false;           // may use it
  bool credits = true;                  // tells the peer how many receives there are
  uint32_t pollers = mem::kReadersMax;  // of the device, at most
  ReadLimits reads{.sent = 128, .answered = 16};
  std::span<const uint16_t> partition_keys = kDefaultPartition;  // not owned: the port's table
  wire::SourcePorts source_ports = wire::SourcePorts::kFlowLabel;
  CongestionOptions congestion = {};
  bool tail_probes = false;                // also before anything was lost (retransmission.h)
  bool selective_repeat = true;            // else go-back-N, at both ends of the connection
  uint32_t datagram_mtu = 4096;            // of the port: the longest message of UD
  queue::SendQueue* send_queue = nullptr;  // not owned, like the rest; of UD: with a DatagramAddress attached
  queue::ReceiveQueue* receive_queue = nullptr;
  queue::SharedReceiveQueue* shared_receives = nullptr;  // takes the place of the one above, if given
  queue::CompletionQueue* send_completions = nullptr;
  queue::CompletionQueue* receive_completions = nullptr;
  EventListener* listener = nullptr;
  // XRC target, which gets domain and receive_completions with each message (xrc_target.h).
  const queue::SharedReceiveTable* xrc_receives = nullptr;
  queue::XrcDomainId xrc_domain;
};

/// What keeps a queue pair from going on as usual.
struct ErrorFlags {
  /// A part met an error that ends the connection and has reported it; QueuePair then enters the error
  /// state.
  bool broken = false;
  /// An error that only ends the sending was met and reported: of a send, on a service whose peer does not
  /// wait for it.
  bool sends_broken = false;
  /// Nothing is received or sent before an invalidation is over, or a region free that another queue pair has
  /// just now.
  bool stalled = false;
  /// The packet was not taken: the connection is stalled, or packets before it are missing.
  bool again = false;

  [[nodiscard]] bool has_errors() const { return std::bit_cast<uint32_t>(*this) != 0; }
};

/// What requester, completer and responder of one queue pair share. Written by QueuePair, except `broken`
/// and `sends_broken`.
struct Connection : ErrorFlags {
  QueuePairOptions options;
  // What follows from its type.
  wire::Service service = service_of(options.type);
  bool reliable = is_reliable(options.type);   // the peer answers what we send
  bool connected = options.type != Type::kUd;  // it has one peer
  ReceiveRequests receives;
  Attributes attributes;
  wire::FrameTemplate frame;
  uint32_t mtu = 256;
  uint16_t partition_key = 0xFFFF;  // by attributes.pkey_index
  uint32_t resources = 0;  // for requests that are answered by themselves, by attributes.max_dest_rd_atomic
  /// How its keys are looked up. An XRC target has the domain of the message's receive queue.
  mem::KeyUser user{options.domain, options.identity, options.reserved_lkey};
  /// The domain of keys in receive work requests: that of the shared receive queue, if there is one.
  DomainId receive_domain =
      options.shared_receives != nullptr ? options.shared_receives->options().domain : options.domain;
  RateLimit rate_limit;
  Waiter waiter = Waiter::kNone;
  ReplyHabit replies;            // to messages that a completion tells of ...
  ReplyHabit write_replies;      // ... and to WRITEs, which the application finds in its memory
  uint64_t acknowledged_in = 0;  // Turn::call of the last turn in which a request of ours was
  copy::MessageOwner* placement_owner = nullptr;  // the queue pair, for what it places
  mem::Invalidation* invalidation = nullptr;
  const SendWindow* requests = nullptr;  // the queue pair's own
  Incidents incidents;
  // For notices.
  Failure failure = Failure::kNone;  // what made it broken, or its sends
  MemoryKey refused_key;             // that the peer's request named, if it was refused for that

  [[nodiscard]] State state() const { return attributes.state; }
  [[nodiscard]] bool is_xrc_target() const { return options.type == Type::kXrcReceive; }
  void raise(Event event) const {
    if (options.listener != nullptr) options.listener->raised(event);
  }
  /// The packet `psn`, which is early, may wait until `due` has come.
  [[nodiscard]] bool may_keep(Psn psn, Psn due) const {
    return options.selective_repeat && psn.before(due + kKeptAhead);
  }
  /// A request may not leave before rate_limit.deadline().
  [[nodiscard]] bool holds_request(Instant now) {
    return rate_limit.limits() && !rate_limit.may_send(options.congestion, now);
  }
  /// The data of a READ may not leave before rate_limit.deadline().
  [[nodiscard]] bool holds_response(Instant now) {
    return rate_limit.limits_responses() && !rate_limit.may_send(options.congestion, now);
  }
  /// A request left that holds_request() allowed, or that does not wait for its time.
  void note_request_left(uint32_t bytes) {
    if (rate_limit.limits()) [[unlikely]]
      rate_limit.sent(options.congestion, bytes);
  }
  void note_response_left(uint32_t bytes) {
    if (rate_limit.limits_responses()) [[unlikely]]
      rate_limit.sent(options.congestion, bytes);
  }
  [[nodiscard]] const mem::KeyUser& key_user() const { return user; }
  /// How the keys of receive work requests are looked up.
  [[nodiscard]] mem::KeyUser receive_key_user() const {
    return {receive_domain, user.queue_pair, user.reserved_lkey};
  }
};

/// What one call of a pump did.
struct Pumped {
  uint32_t frames = 0;
  bool more = false;    // stopped for want of budget or buffers, not of work
  bool behind = false;  // or because the rest goes behind what else there is to send
  bool waits = false;   // likewise, but only if there is something
  bool follows = true;  // and it may wait until that has left
};

}  // namespace uroce::qp
