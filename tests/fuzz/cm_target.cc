#include "cm_target.h"

#include <algorithm>
#include <concepts>
#include <functional>
#include <stdexcept>

#include "parse_property.h"

namespace uroce::fuzz {

namespace {

using cm::EventKind;
using cm::Incoming;
using cm::State;
using wire::CommId;

/// The connection of ours that a message is for; REQ and SIDR_REQ name none.
CommId named_by(const wire::CmMessage& message) {
  return std::visit(
      []<typename Message>(const Message& m) {
        if constexpr (std::same_as<Message, wire::CmSidrRep>)
          return m.request;
        else if constexpr (requires { m.remote; })
          return m.remote;
        else
          return CommId{};
      },
      message);
}

/// In the order of CmMessage; the requests are not counted.
constexpr std::array<Incoming, CmDepth::kMessages> kIncoming = {
    Incoming::kReq,  Incoming::kMra, Incoming::kRej,     Incoming::kRep, Incoming::kRtu, Incoming::kDreq,
    Incoming::kDrep, Incoming::kReq, Incoming::kSidrRep, Incoming::kLap, Incoming::kApr};

/// What asks for something. All others answer or end it, and two that answered answers would never end.
bool may_be_answered_at_once(const wire::CmMessage& message) {
  return std::holds_alternative<wire::CmReq>(message) || std::holds_alternative<wire::CmSidrReq>(message) ||
         std::holds_alternative<wire::CmRep>(message) || std::holds_alternative<wire::CmDreq>(message) ||
         std::holds_alternative<wire::CmLap>(message);
}

}  // namespace

void CmDepth::operator+=(const CmDepth& other) {
  const auto add = [](auto& to, const auto& from) {
    std::ranges::transform(to, from, to.begin(), std::plus<>{});
  };
  for (size_t state = 0; state < met.size(); ++state) add(met[state], other.met[state]);
  add(told, other.told);
  add(sent, other.sent);
  counters.malformed += other.counters.malformed;
  counters.unknown_connection += other.counters.unknown_connection;
  counters.no_room += other.counters.no_room;
  counters.repeated += other.counters.repeated;
  counters.unexpected += other.counters.unexpected;
  counters.foreign += other.counters.foreign;
}

CmTarget::CmTarget(Choices& choices, Observer observer)
    : choices_(choices),
      observer_(std::move(observer)),
      agent_({.connections_max = kConnectionsMax, .listeners_max = 1, .first_number = kFirstNumber}, *this) {
  listen();
}

void CmTarget::require(bool holds, const char* what) {
  if (!holds) throw std::logic_error(what);
}

void CmTarget::listen() {
  const Result<cm::ListenerId> listener = agent_.listen(kService, Gid{}, kBacklog, kListener);
  require(listener.ok(), "there is room for the only listener");
  listener_ = *listener;
}

CmDepth CmTarget::depth() const {
  CmDepth depth = depth_;
  depth.counters = agent_.counters();
  return depth;
}

void CmTarget::receive(const Gid& from, std::span<const std::byte> bytes) {
  wire::CmMad mad;
  const bool is_message = wire::parse_cm(bytes, mad) == wire::CmParse::kOk;
  const CommId id = is_message ? named_by(mad.message) : CommId{};
  const State before = agent_.state_of(id);
  const auto others = [&] { return agent_.counters().unknown_connection + agent_.counters().foreign; };
  const uint64_t unknown = others();

  sent_.clear();
  receiving_ = true;
  agent_.receive({.local = address(), .remote = from}, bytes, now_, *this);
  receiving_ = false;
  require(sent_.size() <= 1, "a datagram is answered once at most");
  require(sent_.empty() || (is_message && may_be_answered_at_once(mad.message)), "an answer is not answered");
  require(sent_.empty() || sent_[0].first == from, "a peer that asks is answered");
  check();

  if (before == State::kFree || others() != unknown) return;
  ++depth_.met[static_cast<size_t>(before)][static_cast<size_t>(kIncoming[mad.message.index()])];
  if (std::holds_alternative<wire::CmDreq>(mad.message) && agent_.state_of(id) == State::kTimewait)
    check_disconnected(from, mad);
}

/// An end that disconnects gets a DREP, as often as it asks.
void CmTarget::check_disconnected(const Gid& from, const wire::CmMad& dreq) {
  pump();
  const auto answers_it = [&](const auto& sent) {
    const auto* const drep = std::get_if<wire::CmDrep>(&sent.second.message);
    return drep != nullptr && sent.first == from && sent.second.transaction_id == dreq.transaction_id &&
           drep->local == named_by(dreq.message);
  };
  require(std::ranges::any_of(sent_, answers_it), "a DREQ is answered by its DREP");
}

void CmTarget::pump(size_t room) {
  sent_.clear();
  room_ = room;
  fickle_ = room != SIZE_MAX;
  agent_.pump(now_, *this);
  require(sent_.size() <= kConnectionsMax + cm::EarlyRequests::kMax, "a connection sends once at a time");
  require(room != SIZE_MAX || agent_.deadline() > Instant{}, "with room enough nothing stays behind");
  check();
}

cm::Sent CmTarget::send(const cm::Address& address, const wire::CmMad& mad) {
  require(address.local == CmTarget::address(), "what is sent comes from us");
  std::array<std::byte, wire::kMadBytes> bytes;
  wire::write_cm(bytes.data(), mad);
  check_mad(bytes);
  if (!receiving_) {
    if (room_ == 0) return cm::Sent::kNoRoom;
    --room_;
    if (fickle_ && choices_.once_in(8)) return cm::Sent::kLater;
  }
  ++depth_.sent[mad.message.index()];
  sent_.emplace_back(address.remote, mad);
  observer_(address.remote, mad);
  return cm::Sent::kYes;
}

std::optional<CmTarget::Phase> CmTarget::phase_of(CommId id) const {
  const auto known = known_.find(id.value);
  return known == known_.end() ? std::nullopt : std::optional(known->second.phase);
}

void CmTarget::set_phase(CommId id, Phase phase) {
  require(phase_of(id).has_value(), "only what has not been released changes");
  known_[id.value].phase = phase;
}

/// The consumer and the agent mean the same.
void CmTarget::check() {
  size_t waiting = 0;
  for (const auto& [number, known] : known_) {
    const State state = agent_.state_of({number});
    switch (known.phase) {
      case Phase::kConnecting:
        require(state == State::kReqSent, "a REQ waits for its answer");
        break;
      case Phase::kRequested:
        require(state == State::kReqReceived, "a request waits for the consumer");
        break;
      case Phase::kReplied:
        require(state == State::kRepReceived, "a reply waits for the consumer");
        break;
      case Phase::kAnswered:
        require(state == State::kRepSent, "a REP waits for its answer");
        break;
      case Phase::kConnected:
        require(state == State::kEstablished || state == State::kDreqSent, "what is up ends with an event");
        break;
      case Phase::kEnding:
        require(state == State::kTimewait, "a disconnected id waits");
        break;
      case Phase::kResolving:
        require(state == State::kSidrReqSent, "a SIDR_REQ waits for its answer");
        break;
      case Phase::kServiceRequested:
        require(state == State::kSidrReqReceived, "a request of a service waits for the consumer");
        break;
      case Phase::kOver:
        require(state == State::kClosed, "what is over stays so");
        break;
    }
    waiting += known.phase == Phase::kRequested || known.phase == Phase::kServiceRequested ? 1 : 0;
  }
  require(waiting <= kBacklog, "no more wait than the backlog has room for");
  require(known_.size() <= agent_.connections(), "what the consumer has not released is there");
  require(agent_.connections() <= kConnectionsMax, "there are no more than there is room for");
}

void CmTarget::drain() {
  known_.clear();
  constexpr int kTurnsMax =
      100;  // no timer takes longer than two of them, and none is armed more than 17 times
  for (int turn = 0; agent_.deadline() != kNever; ++turn) {
    require(turn < kTurnsMax, "all of it ends");
    pump();
    advance(seconds(20'000));
  }
  require(agent_.connections() == 0, "nothing is left");
}

void CmTarget::finish() {
  while (!known_.empty()) release({known_.begin()->first});
  agent_.end_listening(listener_);
  drain();

  // There is life after it.
  listen();
  wire::CmMad mad{7, 0, wire::CmReq{.local = {1}, .service = kService, .qp = {1}}};
  auto& req = std::get<wire::CmReq>(mad.message);
  req.primary.local_gid = peer(0);
  req.primary.remote_gid = address();
  std::array<std::byte, wire::kMadBytes> bytes;
  wire::write_cm(bytes.data(), mad);
  const uint64_t before = depth_.told[static_cast<size_t>(EventKind::kRequest)];
  receive(peer(0), bytes);
  require(depth_.told[static_cast<size_t>(EventKind::kRequest)] == before + 1,
          "a peer that asks then is heard");
  while (!known_.empty()) release({known_.begin()->first});
  drain();
}

}  // namespace uroce::fuzz
