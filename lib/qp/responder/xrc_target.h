#pragma once

#include "mem/rights/region.h"
#include "qp/connection/connection.h"
#include "queue/shared_receive_queue.h"
#include "wire/packet.h"

namespace uroce::qp {

// An XRC target has neither protection domain nor completion queue nor receives of its own: those of the
// shared receive queue count that the message names. A number outside of its XRC domain is an invalid
// request. All target queue pairs and shared receive queues of an XRC domain belong to one poller.

/// The shared receive queue that the packet names; none on other services.
inline queue::SrqNumber receives_named_by(const wire::Packet& packet) {
  return packet.row->headers.has(wire::Header::kXrcEth) ? queue::SrqNumber{packet.headers.xrc_srq}
                                                        : queue::SrqNumber{};
}

/// The queue of that number, if it is one of the connection's XRC domain, else nullptr.
queue::SharedReceiveQueue* find_receives(const Connection& connection, queue::SrqNumber number);

/// The messages from now on are for `receives`; when none is under way.
void turn_to(Connection& connection, queue::SharedReceiveQueue& receives);

/// The queue goes: a message that is coming in for it cannot go on.
void forget_receives(Connection& connection, const queue::SharedReceiveQueue& receives);

/// The user as which the keys of a request are looked up that was made for the shared receive queue `number`.
mem::KeyUser xrc_user_for(const Connection& connection, queue::SrqNumber number);
/// The domain, or the user, by which keys of requests are looked up on any service; `number` as for XRC.
inline DomainId domain_for(const Connection& connection, queue::SrqNumber number) {
  return connection.is_xrc_target() ? xrc_user_for(connection, number).domain : connection.key_user().domain;
}
inline mem::KeyUser key_user_for(const Connection& connection, queue::SrqNumber number) {
  return connection.is_xrc_target() ? xrc_user_for(connection, number) : connection.key_user();
}

}  // namespace uroce::qp
