// Decision: a stale REQ is one whose source address, CA GUID and queue pair number are a live connection's,
// and is refused (reason 10). It ends an established connection only if it came from the same Ethernet
// address. Cost: a peer that forges all of them ends it.
//
// Decision: a stale REQ ends no connection of another program of its host, since each agent knows its own
// only. Cost: that connection ends by retries.
//
// Decision: an answer counts only with the transaction id of its exchange (exchange.h). Numbers can be
// guessed; our ids are a keyed hash. Cost: a peer that breaks IBTA 12.6 is ignored (AgentCounters::foreign).
//
// Decision: a connection uses the primary path of its REQ, without ECN bits, which in the datagram are marks
// of the network. Linux keeps those of the path; no cost is known.
#include <algorithm>
#include <concepts>

#include "cm/agent.h"
#include "cm/exchange.h"
#include "cm/request_destination.h"
#include "wire/ecn.h"

namespace uroce::cm {
namespace {

constexpr uint8_t kExtendedXrc = 1;

// What a peer may have us wait at most, whatever it says: with codes up to 31, or 2.4 hours, it could hold
// a place for days by being silent. No peer needs more than Linux asks for: 20 (4.3 s) for an answer, less
// for packets on their way, and 24 (69 s) for a consumer that is at it.
constexpr uint8_t kAnswerMax = 20;
constexpr uint8_t kServiceMax = 24;

Duration time_within(uint8_t code, uint8_t limit) { return cm_time(std::min(code, limit)); }

Incoming incoming_of(const wire::CmMra&) { return Incoming::kMra; }
Incoming incoming_of(const wire::CmRej&) { return Incoming::kRej; }
Incoming incoming_of(const wire::CmRep&) { return Incoming::kRep; }
Incoming incoming_of(const wire::CmRtu&) { return Incoming::kRtu; }
Incoming incoming_of(const wire::CmDreq&) { return Incoming::kDreq; }
Incoming incoming_of(const wire::CmDrep&) { return Incoming::kDrep; }
Incoming incoming_of(const wire::CmLap&) { return Incoming::kLap; }
Incoming incoming_of(const wire::CmApr&) { return Incoming::kApr; }

bool transport_known(const wire::CmReq& req) {
  switch (req.transport) {
    case wire::CmTransport::kRc:
    case wire::CmTransport::kUc:
      return true;
    case wire::CmTransport::kExtended:
      return req.extended_transport == kExtendedXrc;
    case wire::CmTransport::kReserved:
      return false;
  }
  return false;
}

/// A message that belongs to no connection of ours. What finds no room is as good as lost.
void send_to_stranger(const Address& address, uint64_t transaction, wire::CmMessage message, MadSink& sink) {
  static_cast<void>(sink.send(address, {transaction, 0, std::move(message)}));
}

/// Whether two messages of one host may have come the same way.
bool same_link(const Address& one, const Address& other) {
  return one.link == other.link || one.link == MacAddress{} || other.link == MacAddress{};
}

/// Rejects a REQ. For an invalid GID the REJ names the one that the REQ came to as acceptable.
void refuse(const Address& address, const wire::CmMad& mad, wire::RejectReason reason, MadSink& sink) {
  wire::CmRej rej{.remote = std::get<wire::CmReq>(mad.message).local, .reason = reason};
  if (reason == wire::RejectReason::kInvalidGid) set_information(rej, information_of_gid(address.local));
  send_to_stranger(address, mad.transaction_id, rej, sink);
}

/// The path to the peer of a REQ that came at `address`: the primary path that the REQ names. The datagram
/// itself says neither which class its sender's data are of, nor whether the sender heeds marks.
Address path_of(const Address& address, const wire::CmPath& primary) {
  constexpr uint8_t kPriorities = 8;  // of Ethernet, which has no other service level
  Address path = address;
  path.traffic_class = wire::without_ecn(primary.traffic_class);
  path.flow_label = primary.flow_label;
  path.service_level = primary.service_level % kPriorities;
  return path;
}

/// Whether the connection has a row.
bool is_shown(State state) {
  return state == State::kRepSent || state == State::kRepReceived || state == State::kEstablished ||
         state == State::kDreqSent;
}

}  // namespace

void Agent::receive(const Address& address, std::span<const std::byte> bytes, Instant now, MadSink& sink) {
  handle({address, bytes, now + options_.hold_requests}, now, sink);
}

void Agent::handle(const Datagram& datagram, Instant now, MadSink& sink) {
  const Address& address = datagram.address;
  wire::CmMad mad;
  if (wire::parse_cm(datagram.bytes, mad) != wire::CmParse::kOk) {
    ++counters_.malformed;
    return;
  }
  std::visit(
      [&]<typename Message>(const Message& message) {
        if constexpr (std::same_as<Message, wire::CmReq>)
          on_req(datagram, mad, now, sink);
        else if constexpr (std::same_as<Message, wire::CmSidrReq>)
          on_sidr_req(datagram, mad, now, sink);
        else if constexpr (std::same_as<Message, wire::CmSidrRep>)
          on_answer(address, mad, Incoming::kSidrRep, message.request, {}, now, sink);
        else
          on_answer(address, mad, incoming_of(message), message.remote, message.local, now, sink);
      },
      mad.message);
}

Connection* Agent::admit(Listener& listener, State state, const Address& address, CommId theirs) {
  Connection* const connection = make_room(listener, address.remote) ? allocate() : nullptr;
  if (connection == nullptr) {
    // The peer asks again, and may find room then.
    ++counters_.no_room;
    return nullptr;
  }
  ++listener.waiting;
  connection->state = state;
  connection->attended = true;
  connection->listener = static_cast<uint32_t>(&listener - listeners_.data());
  connection->consumer = listener.consumer;
  connection->address = address;
  connection->remote = theirs;
  table_.enlist_comm(*connection);
  half_open_.add(*connection, connection->listener);
  return connection;
}

bool Agent::make_room(Listener& listener, const Gid& host) {
  // What peers ask for never takes the half of the table that our own connections need.
  const size_t total_max = std::max<size_t>(table_.capacity() / 2, 1);
  const auto index = static_cast<uint32_t>(&listener - listeners_.data());
  const auto has_room = [&] {
    return listener.used && listener.waiting < listener.backlog &&
           half_open_.of_listener(index) < std::max(listener.backlog, kHalfOpenMin) &&
           half_open_.total() < total_max;
  };
  if (has_room()) return true;
  Connection* const displaced = half_open_.to_displace(index, host);
  if (displaced == nullptr) return false;
  ++counters_.displaced;
  displace(*displaced);
  return has_room();
}

/// A peer whose request the consumer has not seen is not told: it repeats the request, and may find room
/// then.
void Agent::displace(Connection& connection) {
  if (connection.listener != 0)
    close(connection);
  else
    give_up_and_close(connection);
  tell(EventKind::kUnanswered, connection);
}

bool Agent::hold(const Datagram& datagram, EarlyRequests::Request request, Instant now) {
  if (datagram.hold_until <= now) return false;
  if (early_.holds(datagram.address.remote, request.theirs)) return true;
  request.address = datagram.address;
  request.until = datagram.hold_until;
  std::ranges::copy(datagram.bytes, request.mad.begin());
  if (!early_.hold(request)) return false;
  ++counters_.held;
  return true;
}

void Agent::handle_early_requests(Instant now, MadSink& sink) {
  listened_ = false;
  for (size_t i = 0; i < early_.waiting().size();) {
    const EarlyRequests::Request& waiting = early_.waiting()[i];
    if (now < waiting.until && listener_of(waiting.service, waiting.to) == nullptr) {
      ++i;
      continue;
    }
    const EarlyRequests::Request request = early_.take(i);
    handle({request.address, request.mad, now}, now, sink);
  }
}

void Agent::on_req(const Datagram& datagram, const wire::CmMad& mad, Instant now, MadSink& sink) {
  const Address& address = datagram.address;
  const auto& req = std::get<wire::CmReq>(mad.message);
  if (Connection* const known = table_.find_comm(address.remote, req.local, false)) {
    if (!in_exchange(*known, Incoming::kReq, mad)) return;
    return perform(action_of(known->state, Incoming::kReq), *known, mad, now, sink);
  }
  if (!transport_known(req)) return refuse(address, mad, wire::RejectReason::kInvalidTransport, sink);
  if (req.primary.local_gid != address.remote || req.primary.remote_gid != address.local)
    return refuse(address, mad, wire::RejectReason::kInvalidGid, sink);
  if (Connection* const stale = table_.find_qp(address.remote, req.ca_guid, req.qp)) {
    // The peer has begun anew, and what we take for alive is not: it has to be ended before. A stranger that
    // only says the peer's address and numbers does not end it.
    if (stale->state == State::kEstablished && same_link(stale->address, address)) hang_up(*stale, {});
    return refuse(address, mad, wire::RejectReason::kStaleConnection, sink);
  }
  const Gid to = request_destination(address.local, address.remote, req.private_data);
  Listener* const listener = listener_of(req.service, to);
  if (listener == nullptr) {
    if (hold(datagram,
             {.to = to, .theirs = req.local, .transaction = mad.transaction_id, .service = req.service}, now))
      return;
    return refuse(address, mad, wire::RejectReason::kInvalidServiceId, sink);
  }

  Connection* const connection =
      admit(*listener, State::kReqReceived, path_of(address, req.primary), req.local);
  if (connection == nullptr) return;
  connection->remote_qp = req.qp;
  connection->remote_guid = req.ca_guid;
  connection->repeats = req.max_cm_retries;
  connection->timewait = time_within(req.primary.ack_timeout, kAnswerMax);
  connection->answer_within = time_within(req.local_cm_response_timeout, kAnswerMax) + connection->timewait;
  connection->transaction = connection->request_transaction = mad.transaction_id;
  table_.enlist_qp(*connection);
  tell(EventKind::kRequest, *connection, &mad);
}

void Agent::on_sidr_req(const Datagram& datagram, const wire::CmMad& mad, Instant now, MadSink& sink) {
  const Address& address = datagram.address;
  const auto& req = std::get<wire::CmSidrReq>(mad.message);
  if (table_.find_comm(address.remote, req.request, true) != nullptr) {
    ++counters_.unexpected;  // the consumer is at it
    return;
  }
  const Gid to = request_destination(address.local, address.remote, req.private_data);
  Listener* const listener = listener_of(req.service, to);
  if (listener == nullptr) {
    if (hold(datagram,
             {.to = to, .theirs = req.request, .transaction = mad.transaction_id, .service = req.service},
             now))
      return;
    return send_to_stranger(
        address, mad.transaction_id,
        wire::CmSidrRep{
            .request = req.request, .status = wire::SidrStatus::kUnsupported, .service = req.service},
        sink);
  }
  Connection* const connection = admit(*listener, State::kSidrReqReceived, address, req.request);
  if (connection == nullptr) return;
  connection->transaction = connection->request_transaction = mad.transaction_id;
  tell(EventKind::kServiceRequest, *connection, &mad);
}

void Agent::on_answer(const Address& address, const wire::CmMad& mad, Incoming incoming, CommId ours,
                      CommId theirs, Instant now, MadSink& sink) {
  if (incoming == Incoming::kRej && ours == CommId{})
    early_.cancel(address.remote, theirs, mad.transaction_id);
  // A peer that gives up on its REQ has never heard our number.
  Connection* const connection = incoming == Incoming::kRej && ours == CommId{}
                                     ? table_.find_comm(address.remote, theirs, false)
                                     : table_.find(ours);
  const bool its_own = connection != nullptr && connection->address.remote == address.remote &&
                       (connection->remote == theirs || connection->remote == CommId{});
  if (its_own) {
    if (!in_exchange(*connection, incoming, mad)) return;
    const Action action = action_of(connection->state, incoming);
    // Where it came from an answer finds it.
    if (action != Action::kIgnore && connection->address.link != address.link) {
      connection->address.link = address.link;
      if (is_shown(connection->state)) show(*connection);
    }
    return perform(action, *connection, mad, now, sink);
  }

  ++counters_.unknown_connection;
  if (incoming == Incoming::kDreq) {
    send_to_stranger(address, mad.transaction_id, wire::CmDrep{.local = ours, .remote = theirs}, sink);
  } else if (incoming == Incoming::kRep) {
    send_to_stranger(address, mad.transaction_id,
                     wire::CmRej{.local = ours,
                                 .remote = theirs,
                                 .answered = wire::CmAnswered::kRep,
                                 .reason = wire::RejectReason::kInvalidCommId},
                     sink);
  }
}

bool Agent::in_exchange(const Connection& connection, Incoming incoming, const wire::CmMad& mad) {
  if (bears_transaction(connection, incoming, mad.transaction_id)) return true;
  ++counters_.foreign;
  return false;
}

void Agent::perform(Action action, Connection& connection, const wire::CmMad& mad, Instant now,
                    MadSink& sink) {
  switch (action) {
    case Action::kIgnore:
      ++counters_.unexpected;
      return;
    case Action::kRepeat:
      ++counters_.repeated;
      return mark_due(connection);
    case Action::kAskForTime:
      return ask_for_time(connection);
    case Action::kWait:
      return wait_longer(connection, std::get<wire::CmMra>(mad.message), now);
    case Action::kRefused:
      close(connection);
      return tell(EventKind::kRejected, connection, &mad);
    case Action::kReplied:
      return on_rep(connection, mad);
    case Action::kEstablished:
      connection.state = State::kEstablished;
      half_open_.remove(connection);
      wheel_.disarm(connection);
      return tell(EventKind::kEstablished, connection, &mad);
    case Action::kAnswerDreq:
      if (std::get<wire::CmDreq>(mad.message).remote_qp != connection.local_qp) {
        ++counters_.unexpected;
        return;
      }
      enter_timewait(connection, now);
      answer_hang_up(connection, mad);
      return tell(EventKind::kDisconnected, connection, &mad);
    case Action::kDrepReceived:
      enter_timewait(connection, now);
      return tell(EventKind::kDisconnected, connection, &mad);
    case Action::kRepeatDrep:
      ++counters_.repeated;
      return answer_hang_up(connection, mad);
    case Action::kRefusePath:
      return send_to_stranger(connection.address, mad.transaction_id,
                              wire::CmApr{.local = connection.local,
                                          .remote = connection.remote,
                                          .status = wire::AprStatus::kUnsupported},
                              sink);
    case Action::kStale:
      return refuse(connection.address, mad, wire::RejectReason::kStaleConnection, sink);
    case Action::kResolved:
      close(connection);
      return tell(EventKind::kServiceReply, connection, &mad);
  }
}

/// Whatever was sent last: with a DREQ for a DREQ two ends would never be done.
void Agent::answer_hang_up(Connection& connection, const wire::CmMad& dreq) {
  connection.transaction = dreq.transaction_id;
  send(connection, wire::CmDrep{.local = connection.local, .remote = connection.remote});
}

void Agent::on_rep(Connection& connection, const wire::CmMad& mad) {
  const auto& rep = std::get<wire::CmRep>(mad.message);
  connection.state = State::kRepReceived;
  connection.remote = rep.local;
  connection.remote_qp = queue_pair_of(rep);
  connection.remote_guid = rep.ca_guid;
  table_.enlist_qp(connection);
  wheel_.disarm(connection);
  show(connection);
  tell(EventKind::kReply, connection, &mad);
}

void Agent::wait_longer(Connection& connection, const wire::CmMra& mra, Instant now) {
  const Instant until = now + time_within(mra.service_timeout, kServiceMax) + connection.answer_within;
  if (connection.state == State::kRepSent && connection.ends != kNever)
    connection.ends = std::max(connection.ends, std::min(until, connection.first_sent + kMraPatienceMax));
  wheel_.arm(connection, connection.state == State::kRepSent ? std::min(until, connection.ends) : until);
}

void Agent::ask_for_time(Connection& connection) {
  send(connection, wire::CmMra{.local = connection.local,
                               .remote = connection.remote,
                               .answered = connection.state == State::kReqReceived ? wire::CmAnswered::kReq
                                                                                   : wire::CmAnswered::kRep,
                               .service_timeout = options_.service_timeout});
}

}  // namespace uroce::cm
