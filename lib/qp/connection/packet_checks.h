#pragma once

#include <cstdint>

#include "base/counters/counters.h"
#include "qp/attributes/attributes.h"
#include "qp/connection/connection.h"
#include "qp/connection/receive_requests.h"
#include "wire/packet.h"

// What decides about a packet is here as far as a queue pair that has sent and received nothing can tell: by
// what it was made with, its attributes, and the receives that are posted.
namespace uroce::qp {

/// In front of a datagram in its receive, for its IP header.
inline constexpr uint32_t kDatagramHeaderBytes = 40;

/// Why a queue pair of `service` with these attributes drops the packet; kCount: it does not, by them.
/// `partition_key`: that attributes.pkey_index names.
inline Counter reason_to_drop(const wire::Packet& packet, wire::Service service, uint16_t partition_key,
                              const Attributes& attributes) {
  // A CNP is about a connection, and UD has none.
  const bool connected = service != wire::Service::kUd;
  const bool cnp = packet.row->family == wire::Family::kCnp;
  if (packet.row->opcode.service() != (cnp && connected ? wire::Service::kCnp : service))
    return Counter::kDropService;
  const State state = attributes.state;
  if (state < State::kRtr || state > State::kSqe || (packet.row->response && state == State::kRtr))
    return Counter::kDropQpState;
  if (connected &&
      (packet.source != attributes.path.destination || packet.destination != attributes.path.source))
    return Counter::kDropWrongPeer;
  if (!may_talk(partition_key, packet.headers.bth.partition_key)) return Counter::kDropPartitionKey;
  return Counter::kCount;
}

/// Whether the request is of a peer that sends all again from the number that a NAK names, whatever is
/// acknowledged meanwhile, and that is confused by an ACK of what it has not sent again yet. Without MigReq
/// it is one (rxe). What came early of it waits until the peer has passed it once more.
inline bool goes_back(const wire::Packet& request) { return !request.headers.bth.migration; }

/// Why a queue pair of UD with this Q_Key drops a datagram that reason_to_drop() lets pass; kCount: it does
/// not. `mtu`: of the port.
inline Counter reason_to_drop_datagram(const wire::Packet& packet, uint32_t qkey, uint32_t mtu,
                                       const ReceiveRequests& receives) {
  if (packet.headers.deth.qkey != qkey) return Counter::kDropQkey;
  if (packet.payload.size() > mtu) return Counter::kDropTooLong;
  if (!receives.available()) return Counter::kDropNoReceive;
  if (packet.payload.size() + kDatagramHeaderBytes > receives.current().length) return Counter::kDropTooLong;
  return Counter::kCount;
}

}  // namespace uroce::qp
