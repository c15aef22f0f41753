#include "two_agents.h"

#include <algorithm>

namespace uroce::cm {
namespace {

constexpr Duration kLatency = microseconds(5);
constexpr Duration kLateBy = milliseconds(3);

constexpr uint32_t kServerQp = 200;

const char* name_of(const wire::CmMessage& message) {
  constexpr std::array kNames = {"REQ",  "MRA",      "REJ",      "REP", "RTU", "DREQ",
                                 "DREP", "SIDR_REQ", "SIDR_REP", "LAP", "APR"};
  return kNames.at(message.index());
}

}  // namespace

void TwoAgents::Host::on_event(const Event& event) {
  told.push_back({event.kind, event.id, event.mad == nullptr ? wire::CmMad{} : *event.mad, event.address});
  if (answers && event.kind == EventKind::kRequest) {
    EXPECT_EQ(agent.reply(event.id, rep(kServerQp + static_cast<uint32_t>(told.size())), 7), 0);
  }
  if (answers && event.kind == EventKind::kReply) {
    EXPECT_EQ(agent.ready_to_use(event.id, {}), 0);
  }
  const bool over = event.kind == EventKind::kTimewaitEnded || event.kind == EventKind::kRejected ||
                    event.kind == EventKind::kUnanswered || event.kind == EventKind::kServiceReply;
  if (releases && over) agent.release(event.id);
}

size_t TwoAgents::Host::count(EventKind kind) const {
  return static_cast<size_t>(std::ranges::count(told, kind, &Told::kind));
}

TwoAgents::TwoAgents(const AgentOptions& options)
    : client(Gid::from_ipv4({10, 0, 0, 1}), options), server(Gid::from_ipv4({10, 0, 0, 2}), options) {
  EXPECT_TRUE(server.agent.listen(kService, Gid{}, 64, 1).ok());
}

wire::CmReq TwoAgents::req(uint32_t qp) const {
  wire::CmReq req;
  req.service = kService;
  req.qp = {qp};
  req.primary.local_gid = client.address;
  req.primary.remote_gid = server.address;
  req.primary.ack_timeout = 17;
  req.max_cm_retries = 15;
  return req;
}

wire::CmRep TwoAgents::rep(uint32_t qp) {
  wire::CmRep rep;
  rep.qp = {qp};
  return rep;
}

CommId TwoAgents::connect(uint32_t qp) {
  const Result<CommId> id = client.agent.connect(client.to(server), req(qp), 9);
  EXPECT_TRUE(id.ok());
  return *id;
}

Sent TwoAgents::Sink::send(const Address& address, const wire::CmMad& mad) {
  EXPECT_EQ(address.local, from_.address);
  Host* const to = &from_ == &world_.client ? &world_.server : &world_.client;
  const Fate what_becomes = world_.fate(world_.datagrams_++);
  world_.trace_.push_back(std::string(&from_ == &world_.client ? "client " : "server ") +
                          name_of(mad.message));
  world_.last_sent_ = mad;
  if (what_becomes == Fate::kLost) return Sent::kYes;

  InFlight datagram{to, {.local = address.remote, .remote = address.local}, {}};
  wire::write_cm(datagram.bytes.data(), mad);
  const Instant arrival = world_.now + (what_becomes == Fate::kLate ? kLateBy : kLatency);
  world_.in_flight_.emplace(arrival, datagram);
  if (what_becomes == Fate::kDoubled) world_.in_flight_.emplace(arrival, datagram);
  return Sent::kYes;
}

void TwoAgents::pump() {
  for (Host* const host : {&client, &server}) {
    Sink sink(*this, *host);
    host->agent.pump(now, sink);
  }
}

/// The first datagram that is due; false: none.
bool TwoAgents::arrive() {
  if (in_flight_.empty() || in_flight_.begin()->first > now) return false;
  const InFlight datagram = in_flight_.extract(in_flight_.begin()).mapped();
  Sink sink(*this, *datagram.to);
  datagram.to->agent.receive(datagram.address, datagram.bytes, now, sink);
  return true;
}

void TwoAgents::deliver() {
  pump();
  now = now + kLatency;
  while (arrive()) {
  }
}

void TwoAgents::run(Duration limit) {
  const Instant end = now + limit;
  while (now < end) {
    pump();
    Instant next = std::min(client.agent.deadline(), server.agent.deadline());
    if (!in_flight_.empty()) next = std::min(next, in_flight_.begin()->first);
    if (next > end) {
      if (next != kNever) now = end;
      return;
    }
    now = std::max(now + kLatency, next);  // a deadline may be told too early
    while (arrive()) pump();
  }
}

}  // namespace uroce::cm
