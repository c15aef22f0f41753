#pragma once

#include <bit>
#include <cstdint>

#include "base/identifiers.h"
#include "copy/message_mark.h"
#include "mem/invalidation.h"
#include "mem/region.h"
#include "qp/attributes.h"
#include "qp/congestion/controller.h"
#include "qp/congestion/options.h"
#include "qp/event.h"
#include "qp/notice.h"
#include "qp/queue_pair_options.h"
#include "qp/receive_requests.h"
#include "qp/reply_habit.h"
#include "qp/send_window.h"
#include "qp/traffic.h"
#include "qp/transport_options.h"
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

/// The bit of a P_Key that says so.
inline constexpr uint16_t kFullMember = 0x8000;

/// Two members of a partition talk unless both are limited ones.
constexpr bool may_talk(uint16_t ours, uint16_t theirs) {
  return ((ours ^ theirs) & ~kFullMember & 0xFFFF) == 0 && ((ours | theirs) & kFullMember) != 0;
}

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
  explicit Connection(const QueuePairOptions& options);

  const Type type;
  // What follows from its type.
  const wire::Service service;
  const bool reliable;   // the peer answers what we send
  const bool connected;  // it has one peer
  const TransportOptions& transport;
  const bool signal_all;
  // Of `transport`, as each ACK asks for them.
  const bool credits;
  const bool tail_probes;
  uint8_t resources = 0;  // for requests that are answered by themselves, by attributes.max_dest_rd_atomic
  Waiter waiter = Waiter::kNone;
  CongestionControl control;        // that is chosen
  uint16_t partition_key = 0xFFFF;  // by attributes.pkey_index
  uint32_t mtu;                     // UD: of the port
  const QpNumber number;
  queue::SendQueue* const send_queue;
  // Null where it has none.
  queue::CompletionQueue* const send_completions;
  queue::CompletionQueue* receive_completions;
  EventListener* const listener;
  ReceiveRequests receives;
  Attributes attributes;
  wire::FrameTemplate frame;
  /// How its keys are looked up. An XRC target has the domain of the message's receive queue.
  mem::KeyUser user;
  /// The domain of keys in receive work requests: that of the shared receive queue, if there is one.
  DomainId receive_domain;
  MemoryKey refused_key;             // for notices: that the peer's request named, if it was refused for that
  Failure failure = Failure::kNone;  // likewise: what made it broken, or its sends
  ReplyHabit replies;                // to messages that a completion tells of ...
  ReplyHabit write_replies;          // ... and to WRITEs, which the application finds in its memory
  uint32_t acknowledged_in = 0;  // Turn::call, modulo 2^32, of the last turn in which a request of ours was
  Incidents incidents;
  copy::MessageOwner* placement_owner = nullptr;  // the queue pair, for what it places
  CongestionController congestion;
  mem::Invalidation invalidation;
  const queue::XrcDomainId xrc_domain;

  [[nodiscard]] State state() const { return attributes.state; }
  [[nodiscard]] bool is_xrc_target() const { return type == Type::kXrcReceive; }
  void raise(Event event) const {
    if (listener != nullptr) listener->raised(event);
  }
  /// The packet `psn`, which is early, may wait until `due` has come.
  [[nodiscard]] bool may_keep(Psn psn, Psn due) const {
    return transport.selective_repeat && psn.before(due + kKeptAhead);
  }
  /// A request may not leave before congestion.deadline().
  [[nodiscard]] bool holds_request(Instant now) { return congestion.limits() && !congestion.may_send(now); }
  /// The data of a READ may not leave before congestion.deadline().
  [[nodiscard]] bool holds_response(Instant now) {
    return congestion.limits_responses() && !congestion.may_send(now);
  }
  /// A request left that holds_request() allowed, or that does not wait for its time.
  void note_request_left(uint32_t bytes) {
    if (congestion.limits()) [[unlikely]]
      congestion.sent(bytes);
  }
  void note_response_left(uint32_t bytes) {
    if (congestion.limits_responses()) [[unlikely]]
      congestion.sent(bytes);
  }
  [[nodiscard]] const mem::KeyUser& key_user() const { return user; }
  /// How the keys of receive work requests are looked up.
  [[nodiscard]] mem::KeyUser receive_key_user() const {
    return {receive_domain, user.reserved_lkey, user.queue_pair};
  }
};

inline Connection::Connection(const QueuePairOptions& options)
    : type(options.type),
      service(service_of(options.type)),
      reliable(is_reliable(options.type)),
      connected(options.type != Type::kUd),
      transport(*options.transport),
      signal_all(options.signal_all),
      credits(transport.credits),
      tail_probes(transport.tail_probes),
      control(transport.congestion.control),
      mtu(options.datagram_mtu),
      number(options.number),
      send_queue(options.send_queue),
      send_completions(options.send_completions),
      receive_completions(options.receive_completions),
      listener(options.listener),
      receives(*options.receive_queue, options.shared_receives),
      user{.domain = options.domain, .reserved_lkey = options.reserved_lkey, .queue_pair = options.identity},
      receive_domain(options.shared_receives != nullptr ? options.shared_receives->options().domain
                                                        : options.domain),
      invalidation(transport.pollers),
      xrc_domain(options.xrc_domain) {}

/// What one call of a pump did.
struct Pumped {
  uint32_t frames = 0;
  bool more = false;    // stopped for want of budget or buffers, not of work
  bool behind = false;  // or because the rest goes behind what else there is to send
  bool waits = false;   // likewise, but only if there is something
  bool follows = true;  // and it may wait until that has left
};

}  // namespace uroce::qp
