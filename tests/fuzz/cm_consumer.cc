// What the consumer of a CmTarget does, and what it may be told.
#include <algorithm>
#include <cerrno>
#include <initializer_list>
#include <iterator>

#include "cm_target.h"

namespace uroce::fuzz {

using cm::EventKind;
using wire::CommId;

void CmTarget::on_event(const cm::Event& event) {
  ++depth_.told[static_cast<size_t>(event.kind)];
  require(event.address.local == address(), "an event says our address");
  note(event);
  react(event.id, event.kind);
}

void CmTarget::note(const cm::Event& event) {
  const std::optional<Phase> before = phase_of(event.id);
  const bool asks = event.kind == EventKind::kRequest || event.kind == EventKind::kServiceRequest;
  require(before.has_value() != asks,
          "only an id that asks is new, and one that was released is not told of");
  require(event.consumer == (asks ? kListener : known_[event.id.value].consumer),
          "it is the consumer's name");
  const auto goes = [&](std::initializer_list<Phase> from, Phase to) {
    require(std::ranges::find(from, *before) != from.end(), "an event comes when it can");
    set_phase(event.id, to);
  };
  switch (event.kind) {
    case EventKind::kRequest:
      known_[event.id.value] = {Phase::kRequested, kListener};
      return;
    case EventKind::kServiceRequest:
      known_[event.id.value] = {Phase::kServiceRequested, kListener};
      return;
    case EventKind::kReply:
      return goes({Phase::kConnecting}, Phase::kReplied);
    case EventKind::kEstablished:
      return goes({Phase::kAnswered}, Phase::kConnected);
    case EventKind::kRejected:
      return goes({Phase::kConnecting, Phase::kRequested, Phase::kReplied, Phase::kAnswered}, Phase::kOver);
    case EventKind::kUnanswered:
      return goes({Phase::kConnecting, Phase::kAnswered, Phase::kResolving, Phase::kRequested,
                   Phase::kServiceRequested},
                  Phase::kOver);
    case EventKind::kDisconnected:
      return goes({Phase::kReplied, Phase::kAnswered, Phase::kConnected}, Phase::kEnding);
    case EventKind::kTimewaitEnded:
      return goes({Phase::kEnding}, Phase::kOver);
    case EventKind::kServiceReply:
      return goes({Phase::kResolving}, Phase::kOver);
  }
}

/// Mostly as a program would.
void CmTarget::react(CommId id, EventKind kind) {
  switch (choices_.below(8)) {
    case 0:
      return;
    case 1:
      return call();
    default:
      break;
  }
  switch (kind) {
    case EventKind::kRequest:
      return call_for(id, 0);
    case EventKind::kReply:
      return call_for(id, 1);
    case EventKind::kServiceRequest:
      return call_for(id, 5);
    case EventKind::kRejected:
    case EventKind::kUnanswered:
    case EventKind::kTimewaitEnded:
    case EventKind::kServiceReply:
      return release(id);
    case EventKind::kEstablished:
    case EventKind::kDisconnected:
      return;
  }
}

void CmTarget::call() {
  switch (choices_.below(8)) {
    case 0:
      return connect();
    case 1:
      return resolve();
    case 2:
      if (!choices_.once_in(8)) return;
      // Connections that waited there are not known any more.
      std::erase_if(known_, [](const auto& known) {
        return known.second.phase == Phase::kRequested || known.second.phase == Phase::kServiceRequested;
      });
      agent_.end_listening(listener_);
      return listen();
    case 3:
      if (!known_.empty() && choices_.once_in(2))
        release({std::next(known_.begin(), choices_.below(static_cast<uint32_t>(known_.size())))->first});
      return;
    default:
      break;
  }
  // Sometimes for what is not there.
  if (known_.empty() || choices_.once_in(16))
    return call_for({kFirstNumber + choices_.below(2) * (1u << 19)}, choices_.below(6));
  const auto known = std::next(known_.begin(), choices_.below(static_cast<uint32_t>(known_.size())));
  call_for({known->first}, choices_.below(6));
}

CmTarget::Room CmTarget::room() const {
  return {.connections = agent_.connections(), .cut_short = agent_.counters().timewait_cut_short};
}

/// In a full table one gives way that is in TIMEWAIT, and released; whatever is known has its place.
void CmTarget::check_room(const Room& before, bool got_one) const {
  const bool gave_way = room().cut_short > before.cut_short;
  if (before.connections < kConnectionsMax) {
    require(got_one && !gave_way, "there is room");
  } else {
    require(!got_one || gave_way, "there is none");
    require(!got_one || known_.size() < kConnectionsMax, "what is known keeps its place");
  }
  require(agent_.connections() <= kConnectionsMax, "no more than there is room for");
}

void CmTarget::connect() {
  wire::CmReq req;
  req.service = kService;
  req.qp = {1 + choices_.below(8)};
  req.remote_cm_response_timeout = static_cast<uint8_t>(choices_.below(20));
  req.primary.ack_timeout = static_cast<uint8_t>(choices_.below(20));
  req.max_cm_retries = static_cast<uint8_t>(choices_.below(16));
  const Gid to = peer(choices_.below(kPeers));
  const Room before = room();
  const Result<CommId> id = agent_.connect({.local = address(), .remote = to}, req, ++next_consumer_);
  check_room(before, id.ok());
  if (id.ok()) known_[id->value] = {Phase::kConnecting, next_consumer_};
}

void CmTarget::resolve() {
  const Gid to = peer(choices_.below(kPeers));
  const Duration answer_within = microseconds(1 + choices_.below(1 << 24));
  const auto retries = static_cast<uint8_t>(choices_.below(16));
  const Room before = room();
  const Result<CommId> id = agent_.resolve_service({.local = address(), .remote = to}, {.service = kService},
                                                   answer_within, retries, ++next_consumer_);
  check_room(before, id.ok());
  if (id.ok()) known_[id->value] = {Phase::kResolving, next_consumer_};
}

/// Succeeds in its state only.
void CmTarget::call_for(CommId id, uint32_t which) {
  const std::optional<Phase> phase = phase_of(id);
  const bool up = agent_.state_of(id) == cm::State::kEstablished;
  const auto expect = [](int result, bool right) {
    require(result == (right ? 0 : EINVAL), "a call has its state");
  };
  switch (which) {
    case 0: {
      const wire::CmRep rep{.qp = {1 + choices_.below(8)}};
      expect(agent_.reply(id, rep, ++next_consumer_), phase == Phase::kRequested);
      if (phase == Phase::kRequested) known_[id.value] = {Phase::kAnswered, next_consumer_};
      return;
    }
    case 1:
      expect(agent_.ready_to_use(id, {}), phase == Phase::kReplied);
      if (phase == Phase::kReplied) set_phase(id, Phase::kConnected);
      return;
    case 2:
      return expect(agent_.established(id), phase == Phase::kAnswered);
    case 3: {
      const bool right = phase == Phase::kRequested || phase == Phase::kReplied;
      expect(agent_.reject(id, wire::RejectReason::kConsumerDefined, {}), right);
      if (right) set_phase(id, Phase::kOver);
      return;
    }
    case 4:
      return expect(agent_.disconnect(id, {}), phase == Phase::kConnected && up);
    default:
      expect(agent_.answer_service(id, {.service = kService}), phase == Phase::kServiceRequested);
      if (phase == Phase::kServiceRequested) known_.erase(id.value);
      return;
  }
}

void CmTarget::release(CommId id) {
  known_.erase(id.value);
  agent_.release(id);
}

}  // namespace uroce::fuzz
