#include "cm_peer.h"

#include <algorithm>

namespace uroce::fuzz {

using wire::CommId;

void CmPeer::observe(const Gid& peer, const wire::CmMad& mad) {
  const auto learn = [&](CommId target, CommId own, QpNumber qp) {
    const auto known = std::ranges::find(connections_, target, &Connection::target);
    Connection& connection =
        known != connections_.end() ? *known : connections_[connections_seen_++ % connections_.size()];
    if (own == CommId{}) own = known != connections_.end() ? connection.own : CommId{next_own_++};
    if (qp == QpNumber{} && known != connections_.end()) qp = connection.target_qp;
    connection = {peer, target, own, qp, mad.transaction_id, mad.transaction_id};
  };
  if (const auto* dreq = std::get_if<wire::CmDreq>(&mad.message)) {
    const auto known = std::ranges::find(connections_, dreq->local, &Connection::target);
    if (known != connections_.end()) known->disconnect = mad.transaction_id;
    return;
  }
  if (const auto* req = std::get_if<wire::CmReq>(&mad.message)) return learn(req->local, {}, req->qp);
  if (const auto* rep = std::get_if<wire::CmRep>(&mad.message))
    return learn(rep->local, rep->remote, rep->qp);
  if (const auto* mra = std::get_if<wire::CmMra>(&mad.message)) return learn(mra->local, mra->remote, {});
  if (const auto* req = std::get_if<wire::CmSidrReq>(&mad.message)) return learn(req->request, {}, {});
}

CmPeer::Connection CmPeer::any_connection() {
  const size_t known = std::min(connections_seen_, connections_.size());
  Connection connection{.peer = CmTarget::peer(choices_.below(CmTarget::kPeers))};
  if (known > 0) {
    // The latest most of all: the others may be gone.
    const size_t back = choices_.below(2) * choices_.below(static_cast<uint32_t>(known));
    connection = connections_[(connections_seen_ - 1 - back) % connections_.size()];
  }
  switch (choices_.below(32)) {
    case 0:
      connection.peer = CmTarget::peer(choices_.below(CmTarget::kPeers));
      break;
    case 1:
      connection.target.value = CmTarget::kFirstNumber + choices_.below(1 << 16);
      break;
    case 2:
      connection.target.value ^= uint32_t{1} << choices_.below(32);
      break;
    case 3:
      connection.target = {};
      break;
    case 4:
      connection.own.value ^= uint32_t{1} << choices_.below(32);
      break;
    case 5:
      connection.own = {};
      break;
    case 6:
      connection.target_qp.value ^= 1;
      break;
    default:
      break;
  }
  return connection;
}

wire::CmReq CmPeer::any_req(const Gid& peer) {
  wire::CmReq req;
  req.local = {choices_.once_in(4) ? choices_.below(next_own_ + 1) : next_own_++};
  req.service = CmTarget::kService;
  req.qp = {choices_.below(16)};
  req.primary.local_gid = peer;
  req.primary.remote_gid = CmTarget::address();
  req.primary.ack_timeout = static_cast<uint8_t>(choices_.below(choices_.once_in(8) ? 32 : 16));
  req.local_cm_response_timeout = static_cast<uint8_t>(choices_.below(choices_.once_in(8) ? 32 : 16));
  req.max_cm_retries = static_cast<uint8_t>(choices_.below(16));
  switch (choices_.below(24)) {
    case 0:
      req.transport = static_cast<wire::CmTransport>(choices_.below(4));
      req.extended_transport = static_cast<uint8_t>(choices_.below(8));
      break;
    case 1:
      req.primary.local_gid.bytes[choices_.below(16)] ^= 1;
      break;
    case 2:
      req.primary.remote_gid.bytes[choices_.below(16)] ^= 1;
      break;
    case 3:
      req.service.value ^= 1;
      break;
    default:
      break;
  }
  return req;
}

wire::CmMessage CmPeer::any_message(const Connection& connection) {
  const CommId own = connection.own;
  const CommId target = connection.target;
  switch (choices_.below(16)) {
    case 0:
      return wire::CmMra{.local = own,
                         .remote = target,
                         .answered = static_cast<wire::CmAnswered>(choices_.below(4)),
                         .service_timeout = static_cast<uint8_t>(choices_.below(32))};
    case 1:
      return wire::CmRej{.local = own,
                         .remote = target,
                         .answered = static_cast<wire::CmAnswered>(choices_.below(4)),
                         .reason = static_cast<wire::RejectReason>(choices_.below(40))};
    case 2:
    case 3:
    case 4:
      return wire::CmRep{.local = own, .remote = target, .qp = {choices_.below(16)}};
    case 5:
    case 6:
    case 7:
      return wire::CmRtu{.local = own, .remote = target};
    case 8:
      return wire::CmDreq{.local = own, .remote = target, .remote_qp = connection.target_qp};
    case 9:
      return wire::CmDrep{.local = own, .remote = target};
    case 10:
      return wire::CmSidrReq{.request = {choices_.once_in(4) ? choices_.below(next_own_ + 1) : next_own_++},
                             .service = {CmTarget::kService.value ^ (choices_.once_in(8) ? 1u : 0u)}};
    case 11:
      return wire::CmSidrRep{.request = target, .service = CmTarget::kService};
    case 12:
      return wire::CmLap{.local = own, .remote = target, .remote_qp = connection.target_qp};
    case 13:
      return wire::CmApr{.local = own, .remote = target};
    default:
      return any_req(connection.peer);
  }
}

uint64_t CmPeer::any_transaction(const Connection& connection, const wire::CmMessage& message) {
  const bool opens = std::holds_alternative<wire::CmReq>(message) ||
                     std::holds_alternative<wire::CmSidrReq>(message) ||
                     std::holds_alternative<wire::CmDreq>(message);
  if (opens || choices_.once_in(16)) return choices_.below(1 << 16);
  if (std::holds_alternative<wire::CmDrep>(message)) return connection.disconnect;
  return std::holds_alternative<wire::CmRej>(message) && choices_.once_in(4) ? connection.disconnect
                                                                             : connection.request;
}

void CmPeer::send(const Gid& peer, uint64_t transaction, const wire::CmMessage& message) {
  Datagram& datagram = sent_[sent_count_++ % sent_.size()];
  datagram.peer = peer;
  wire::write_cm(datagram.bytes.data(), {transaction, 0, message});
  // Sometimes no message at all, or one byte is another.
  if (choices_.once_in(64))
    datagram.bytes[choices_.below(wire::kMadBytes)] = static_cast<std::byte>(choices_.bytes(1));
  target_->receive(datagram.peer, datagram.bytes);
}

void CmPeer::send() {
  const Connection connection = any_connection();
  const wire::CmMessage message = any_message(connection);
  send(connection.peer, any_transaction(connection, message), message);
}

void CmPeer::send_again() {
  const size_t there = std::min(sent_count_, sent_.size());
  if (there == 0) return;
  const Datagram again = sent_[choices_.below(static_cast<uint32_t>(there))];
  target_->receive(again.peer, again.bytes);
}

void CmPeer::flood() {
  const Gid peer = CmTarget::peer(choices_.below(CmTarget::kPeers));
  for (uint32_t left = choices_.below(3 * CmTarget::kConnectionsMax); left > 0; --left)
    send(peer, choices_.below(1 << 16), any_req(peer));
}

}  // namespace uroce::fuzz
