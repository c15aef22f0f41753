#include "tests/sim/connecting_host.h"

#include <algorithm>
#include <cstring>

#include "tests/sim/bring_up.h"

namespace uroce::sim {

namespace {

constexpr cm::ServiceId kService{0x0106'1144};
constexpr uint32_t kBacklog = 1000;
constexpr uint64_t kListener = ~uint64_t{0};
constexpr Duration kPatience = seconds(60);
constexpr uint8_t kAckTimeout = 8;      // about 1 ms
constexpr uint8_t kAnswerTimeout = 17;  // 0.5 s: an application may have to ask for an address for longer
constexpr uint8_t kRetriesOfMessages = 15;
constexpr std::byte kNo{0xA5};

}  // namespace

ConnectingHost::Totals& ConnectingHost::Totals::operator+=(const Totals& other) {
  answered += other.answered;
  refused += other.refused;
  refusals_heard += other.refusals_heard;
  asked_twice += other.asked_twice;
  taken_back += other.taken_back;
  broken += other.broken;
  before_rtu += other.before_rtu;
  return *this;
}

ConnectingHost::ConnectingHost(Host& host, uint64_t seed)
    : host_(host),
      random_(seed),
      domain_(host.device().allocate_domain().value()),
      address_(host.device().gids().at(1)),
      completions_(host.device().create_completion_queue({.depth = 4096})) {}

void ConnectingHost::fail(const std::string& what) {
  if (failure_.empty()) failure_ = what;
}

template <typename Function>
void ConnectingHost::manage(Function function) {
  const int error =
      host_.device().manage(*this, [&](engine::Gsi& services, Instant now) { function(services, now); });
  if (error != 0) fail("manage");
}

void ConnectingHost::listen() {
  manage([&](engine::Gsi& services, Instant) {
    if (!services.agent().listen(kService, Gid{}, kBacklog, kListener)) fail("listen");
  });
}

ConnectingHost::Connection& ConnectingHost::add() {
  Connection& connection = *connections_.emplace_back(std::make_unique<Connection>());
  connection.number = connections_.size() - 1;
  connection.first_psn = Psn(static_cast<uint32_t>(random_.next()));
  return connection;
}

void ConnectingHost::connect(const Gid& peer, uint32_t count) {
  peer_ = peer;
  for (uint32_t i = 0; i < count; ++i) {
    Connection& connection = add();
    connection.asked = true;
    for (std::byte& byte : connection.message) byte = static_cast<std::byte>(random_.next());
    make_queue_pair(connection);
    manage([&](engine::Gsi& services, Instant now) {
      services.resolve(address_, peer_, connection.number, now, now + kPatience);
    });
  }
}

void ConnectingHost::make_queue_pair(Connection& connection) {
  connection.queue_pair = host_.device()
                              .create_queue_pair({.domain = domain_,
                                                  .signal_all = true,
                                                  .send_depth = 1,
                                                  .receive_depth = 1,
                                                  .send_completions = completions_.get(),
                                                  .receive_completions = completions_.get()})
                              .value();
  connection.memory = std::make_unique<RegisteredMemory>(host_.device(), domain_, 2 * kMessageBytes);
  queue::ReceiveQueue& receives = connection.queue_pair->receive_queue;
  queue::ReceiveRequest& request = *receives.reserve();
  request = {.wr_id = connection.number, .length = kMessageBytes, .segments = 1};
  receives.segments(request)[0] = connection.memory->segment(kMessageBytes, kMessageBytes);
  receives.publish();
}

void ConnectingHost::make_ready(Connection& connection, const Gid& peer, QpNumber destination,
                                Psn peers_psn) {
  qp::Attributes attributes;
  attributes.path.source = address_;
  attributes.path.destination = peer;
  attributes.destination = destination;
  attributes.sq_psn = connection.first_psn;
  attributes.rq_psn = peers_psn;
  attributes.timeout = kAckTimeout;
  attributes.retry_count = 7;
  attributes.rnr_retry = 7;
  attributes.max_rd_atomic = attributes.max_dest_rd_atomic = 1;
  bring_up(host_, *connection.queue_pair, qp::Type::kRc, attributes);
}

void ConnectingHost::send(Connection& connection) {
  std::ranges::copy(connection.message, connection.memory->bytes(0, kMessageBytes).begin());
  queue::SendQueue& sends = connection.queue_pair->send_queue;
  queue::SendRequest& request = *sends.reserve();
  request = {};
  request.operation = queue::SendOperation::kSend;
  request.wr_id = connection.number;
  request.length = kMessageBytes;
  request.segments = 1;
  sends.segments(request)[0] = connection.memory->segment(0, kMessageBytes);
  sends.publish();
  host_.ring_doorbell(*connection.queue_pair);
}

void ConnectingHost::act() {
  while (!resolved_.empty()) {
    const Resolved resolved = resolved_.front();
    resolved_.pop_front();
    if (resolved.error != 0) return fail("no way: " + std::string(strerror(resolved.error)));
    ask(*connections_.at(resolved.resolver));
  }
  while (!heard_.empty()) {
    const Heard heard = heard_.front();
    heard_.pop_front();
    hear(heard);
  }
  std::array<queue::Completion, 16> found;
  const size_t count = host_.poll(*completions_, found);
  for (const queue::Completion& completion : std::span(found).first(count)) completed(completion);
}

void ConnectingHost::ask(Connection& connection) {
  const cm::Address address{.local = address_, .remote = peer_};
  wire::CmReq req;
  req.service = kService;
  req.qp = connection.queue_pair->number;
  req.starting_psn = connection.first_psn;
  req.primary.local_gid = address.local;
  req.primary.remote_gid = address.remote;
  req.primary.ack_timeout = kAckTimeout;
  req.remote_cm_response_timeout = req.local_cm_response_timeout = kAnswerTimeout;
  req.max_cm_retries = kRetriesOfMessages;
  req.path_mtu = static_cast<uint8_t>(PathMtu::k1024);
  std::ranges::copy(connection.message, req.private_data.begin());
  manage([&](engine::Gsi& services, Instant) {
    const Result<cm::CommId> id = services.agent().connect(address, req, connection.number);
    if (!id) return fail("connect");
    connection.id = *id;
  });
}

void ConnectingHost::on_event(const cm::Event& event) {
  heard_.push_back({event.kind, event.id, event.consumer, event.address,
                    event.mad == nullptr ? wire::CmMad{} : *event.mad});
}

void ConnectingHost::hear(const Heard& heard) {
  if (heard.kind == cm::EventKind::kRequest) return on_request(heard);
  if (heard.consumer == kListener) return;  // taken back before it was taken
  Connection& connection = *connections_.at(heard.consumer);
  switch (heard.kind) {
    case cm::EventKind::kReply:
      return on_reply(connection, heard);
    case cm::EventKind::kRejected:
      return on_refusal(connection, heard);
    case cm::EventKind::kEstablished:
      return;
    case cm::EventKind::kDisconnected:
      connection.stage = Stage::kEnding;
      if (connection.asked && !connection.answered) ++totals_.broken;
      return end(connection);
    case cm::EventKind::kTimewaitEnded:
      if (connection.stage != Stage::kEnding) fail("timewait of what is not ending");
      connection.stage = Stage::kOver;
      return manage([&](engine::Gsi& services, Instant) { services.agent().release(connection.id); });
    default:
      return fail("a connection was told of event " + std::to_string(static_cast<int>(heard.kind)));
  }
}

void ConnectingHost::on_request(const Heard& heard) {
  const auto& req = std::get<wire::CmReq>(heard.mad.message);
  Connection& connection = add();
  connection.id = heard.id;
  bool waits = false;
  manage([&](engine::Gsi& services, Instant) {
    waits = services.agent().take_request(heard.id, connection.number) == 0;
    if (!waits) services.agent().release(heard.id);
  });
  if (!waits) {
    ++totals_.taken_back;
    connection.stage = Stage::kOver;
    return;
  }
  std::copy_n(req.private_data.begin(), kMessageBytes, connection.message.begin());
  if (random_.chance(1, 8)) {
    ++totals_.refused;
    connection.stage = Stage::kOver;
    return manage([&](engine::Gsi& services, Instant) {
      const std::array why = {kNo};
      if (services.agent().reject(heard.id, wire::RejectReason::kConsumerDefined, why) != 0) fail("reject");
      services.agent().release(heard.id);
    });
  }
  make_queue_pair(connection);
  make_ready(connection, heard.address.remote, req.qp, req.starting_psn);
  connection.stage = Stage::kConnected;
  wire::CmRep rep;
  rep.qp = connection.queue_pair->number;
  rep.starting_psn = connection.first_psn;
  manage([&](engine::Gsi& services, Instant) {
    cm::Agent& agent = services.agent();
    if (agent.reply(heard.id, rep, connection.number) != 0 &&
        agent.state_of(heard.id) == cm::State::kReqReceived)
      fail("reply");
  });
}

void ConnectingHost::on_reply(Connection& connection, const Heard& heard) {
  const auto& rep = std::get<wire::CmRep>(heard.mad.message);
  make_ready(connection, peer_, rep.qp, rep.starting_psn);
  connection.stage = Stage::kConnected;
  manage([&](engine::Gsi& services, Instant) {
    if (services.agent().ready_to_use(connection.id, {}) != 0) fail("ready_to_use");
  });
  send(connection);
}

void ConnectingHost::on_refusal(Connection& connection, const Heard& heard) {
  const auto& rej = std::get<wire::CmRej>(heard.mad.message);
  // A second REQ of one that was refused already may have come after all; then its REP finds no connection.
  if (!connection.asked && rej.reason == wire::RejectReason::kInvalidCommId)
    ++totals_.asked_twice;
  else if (rej.reason == wire::RejectReason::kConsumerDefined && rej.private_data[0] == kNo)
    ++totals_.refusals_heard;
  else
    fail("rejected for reason " + std::to_string(static_cast<int>(rej.reason)));
  connection.stage = Stage::kOver;
  end(connection);
  manage([&](engine::Gsi& services, Instant) { services.agent().release(connection.id); });
}

void ConnectingHost::completed(const queue::Completion& completion) {
  Connection& connection = *connections_.at(completion.wr_id);
  if (connection.stage != Stage::kConnected) return;  // of one that has ended meanwhile
  if (completion.status == queue::CompletionStatus::kRetryExceeded) return hang_up(connection);
  if (completion.status == queue::CompletionStatus::kFlushed) return;
  if (completion.status != queue::CompletionStatus::kSuccess)
    return fail("completion with status " + std::to_string(static_cast<int>(completion.status)));
  if (is_receive(completion.opcode)) return message_came(connection);
  // The answer has arrived.
  if (!connection.asked && connection.message[0] < std::byte{0x80}) hang_up(connection);
}

void ConnectingHost::message_came(Connection& connection) {
  const std::span<const std::byte> came = connection.memory->bytes(kMessageBytes, kMessageBytes);
  if (!std::ranges::equal(came, connection.message)) fail("a message of another connection");
  if (connection.asked) {
    ++totals_.answered;
    connection.answered = true;
    if (connection.message[0] >= std::byte{0x80}) hang_up(connection);
    return;
  }
  manage([&](engine::Gsi& services, Instant) {
    if (services.agent().state_of(connection.id) == cm::State::kRepSent) {
      ++totals_.before_rtu;
      if (services.agent().established(connection.id) != 0) fail("established");
    }
  });
  send(connection);
}

/// The faster of both ends; the other is notified.
void ConnectingHost::hang_up(Connection& connection) {
  manage([&](engine::Gsi& services, Instant) {
    cm::Agent& agent = services.agent();
    if (agent.disconnect(connection.id, {}) != 0 && agent.state_of(connection.id) == cm::State::kEstablished)
      fail("disconnect");
  });
}

void ConnectingHost::end(Connection& connection) {
  if (connection.queue_pair == nullptr) return fail("it has ended already");
  host_.device().destroy_queue_pair(*connection.queue_pair);
  connection.queue_pair = nullptr;
  if (const std::string wrong = connection.memory->close(); !wrong.empty()) fail(wrong);
}

bool ConnectingHost::over() const {
  return heard_.empty() && std::ranges::all_of(connections_, [](const auto& connection) {
           return connection->stage == Stage::kOver;
         });
}

std::string ConnectingHost::close() {
  manage([&](engine::Gsi& services, Instant) {
    if (services.agent().connections() != 0) fail("connections are left");
  });
  host_.device().retire_completion_queue(*completions_);
  host_.device().free_domain(domain_);
  return failure_;
}

}  // namespace uroce::sim
