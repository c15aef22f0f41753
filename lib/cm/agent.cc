#include "cm/agent.h"

#include <algorithm>
#include <cerrno>

#include "base/values/contract.h"

namespace uroce::cm {
namespace {

constexpr Duration kTick = milliseconds(1);
constexpr size_t kTimerSlots = 256;

/// False when there is more than a message of this kind carries.
template <size_t N>
bool copy_private(std::span<const std::byte> from, wire::PrivateData<N>& to) {
  if (from.size() > N) return false;
  std::ranges::copy(from, to.begin());
  return true;
}

}  // namespace

Agent::Agent(const AgentOptions& options, Consumer& consumer)
    : options_(options),
      consumer_(consumer),
      table_(options.connections_max, options.salt, options.prefix, options.first_number),
      rows_(options.rows),
      half_open_(table_, options.listeners_max + 1, options.salt),
      released_timewait_(table_),
      listeners_(options.listeners_max + 1),
      wheel_(kTick, kTimerSlots) {}

Result<ListenerId> Agent::listen(ServiceId service, const ListenAddress& address, uint32_t backlog,
                                 uint64_t consumer) {
  Listener* place = nullptr;
  for (Listener& listener : std::span(listeners_).subspan(1)) {
    if (!listener.used) {
      if (place == nullptr) place = &listener;
    } else if (listener.service == service && listener.address.address == address.address) {
      return Error{EADDRINUSE, "address already in use"};
    }
  }
  if (place == nullptr) return Error{ENOMEM, "too many listeners"};
  *place = {.used = true, .service = service, .address = address, .consumer = consumer, .backlog = backlog};
  listened_ = true;
  return ListenerId{static_cast<uint32_t>(place - listeners_.data())};
}

void Agent::end_listening(ListenerId listener) {
  UROCE_ASSERT(listener.value != 0 && listeners_[listener.value].used);
  for (uint32_t i = 1; i <= table_.made(); ++i) {
    const Connection& connection = table_.at(i);
    if (connection.listener == listener.value) release(connection.local);
  }
  half_open_.end_listener(listener.value);
  listeners_[listener.value] = {};
}

int Agent::take_request(CommId id, uint64_t consumer) {
  Connection* const connection = table_.find(id);
  if (connection == nullptr || connection->listener == 0) return EINVAL;
  no_longer_waiting(*connection);
  connection->consumer = consumer;
  return 0;
}

uint64_t Agent::new_transaction() {
  return keyed_hash(options_.transactions, options_.first_number, ++transactions_);
}

Agent::Listener* Agent::listener_of(ServiceId service, const Gid& address) {
  Listener* best = nullptr;
  int precision = 0;
  for (Listener& listener : std::span(listeners_).subspan(1)) {
    if (!listener.used || listener.service != service) continue;
    if (const int match = listener.address.precision_for(address); match > precision) {
      best = &listener;
      precision = match;
    }
  }
  return best;
}

Connection* Agent::in_state(CommId id, State state) {
  Connection* const connection = table_.find(id);
  return connection != nullptr && connection->state == state ? connection : nullptr;
}

State Agent::state_of(CommId id) {
  const Connection* const connection = table_.find(id);
  return connection == nullptr ? State::kFree : connection->state;
}

Result<CommId> Agent::connect(const Address& address, const wire::CmReq& req, uint64_t consumer,
                              uint32_t ece_options) {
  Connection* const connection = allocate();
  if (connection == nullptr) return Error{ENOMEM, "too many connections"};
  connection->state = State::kReqSent;
  connection->attended = true;
  connection->address = address;
  connection->consumer = consumer;
  connection->local_qp = req.qp;
  connection->repeats = req.max_cm_retries;
  connection->timewait = cm_time(req.primary.ack_timeout);
  connection->answer_within = cm_time(req.remote_cm_response_timeout) + connection->timewait;
  connection->transaction = connection->request_transaction = new_transaction();
  wire::CmReq numbered = req;
  numbered.local = connection->local;
  send(*connection, numbered, ece_options);
  return connection->local;
}

int Agent::reply(CommId id, const wire::CmRep& rep, uint64_t consumer, uint32_t ece_options) {
  Connection* const connection = in_state(id, State::kReqReceived);
  if (connection == nullptr) return EINVAL;
  no_longer_waiting(*connection);
  connection->state = State::kRepSent;
  connection->consumer = consumer;
  connection->local_qp = queue_pair_of(rep);
  wire::CmRep numbered = rep;
  numbered.local = connection->local;
  numbered.remote = connection->remote;
  connection->again_after = std::min(connection->answer_within, kRepAgain);
  show(*connection);
  send(*connection, numbered, ece_options);
  return 0;
}

int Agent::ready_to_use(CommId id, std::span<const std::byte> private_data) {
  Connection* const connection = in_state(id, State::kRepReceived);
  wire::CmRtu rtu;
  if (connection == nullptr || !copy_private(private_data, rtu.private_data)) return EINVAL;
  rtu.local = connection->local;
  rtu.remote = connection->remote;
  connection->state = State::kEstablished;
  send(*connection, rtu);
  return 0;
}

int Agent::established(CommId id) {
  Connection* const connection = in_state(id, State::kRepSent);
  if (connection == nullptr) return EINVAL;
  connection->state = State::kEstablished;
  half_open_.remove(*connection);
  wheel_.disarm(*connection);
  tell(EventKind::kEstablished, *connection);
  return 0;
}

int Agent::reject(CommId id, wire::RejectReason reason, std::span<const std::byte> private_data,
                  const RejectInformation& information) {
  Connection* const connection = table_.find(id);
  wire::CmRej rej{.reason = reason};
  if (connection == nullptr || !copy_private(private_data, rej.private_data)) return EINVAL;
  if (connection->state != State::kReqReceived && connection->state != State::kRepReceived) return EINVAL;
  set_information(rej, information);
  reject_and_close(*connection, rej);
  return 0;
}

int Agent::disconnect(CommId id, std::span<const std::byte> private_data) {
  Connection* const connection = in_state(id, State::kEstablished);
  wire::CmDreq dreq;
  if (connection == nullptr || !copy_private(private_data, dreq.private_data)) return EINVAL;
  hang_up(*connection, dreq);
  return 0;
}

Result<CommId> Agent::resolve_service(const Address& address, const wire::CmSidrReq& req,
                                      Duration answer_within, uint8_t retries, uint64_t consumer) {
  Connection* const connection = allocate();
  if (connection == nullptr) return Error{ENOMEM, "too many connections"};
  connection->state = State::kSidrReqSent;
  connection->attended = true;
  connection->address = address;
  connection->consumer = consumer;
  connection->repeats = retries;
  connection->answer_within = answer_within;
  connection->transaction = connection->request_transaction = new_transaction();
  wire::CmSidrReq numbered = req;
  numbered.request = connection->local;
  send(*connection, numbered);
  return connection->local;
}

int Agent::answer_service(CommId id, const wire::CmSidrRep& rep) {
  Connection* const connection = in_state(id, State::kSidrReqReceived);
  if (connection == nullptr) return EINVAL;
  wire::CmSidrRep numbered = rep;
  numbered.request = connection->remote;
  connection->attended = false;
  send(*connection, numbered);
  close(*connection);
  return 0;
}

void Agent::release(CommId id) {
  Connection* const connection = table_.find(id);
  if (connection == nullptr) return;
  connection->attended = false;
  switch (connection->state) {
    case State::kReqSent:
      return give_up_and_close(*connection);
    case State::kReqReceived:
    case State::kRepReceived:
    case State::kRepSent:
      return reject_and_close(*connection, {.reason = wire::RejectReason::kConsumerDefined});
    case State::kEstablished:
      return hang_up(*connection, {});
    case State::kSidrReqReceived:
      static_cast<void>(answer_service(id, {.status = wire::SidrStatus::kReject}));
      return;
    case State::kSidrReqSent:
      return close(*connection);
    case State::kClosed:
      return free_if_done(*connection);
    case State::kTimewait:
      return released_timewait_.add(*connection);
    case State::kDreqSent:
    case State::kFree:
      return;  // goes on by itself
  }
}

}  // namespace uroce::cm
