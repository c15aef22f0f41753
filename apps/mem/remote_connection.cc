#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>

#include "apps/mem/remote_region.h"
#include "client/failure.h"

namespace uroce::memory_export {
namespace {

using client::Failure;

constexpr int kResolveMs = 5'000;
constexpr int kAnswerMs = 30'000;
constexpr int kInvalidServiceId = 8;  // IB_CM_REJ_INVALID_SERVICE_ID
constexpr uint8_t kReadsAtOnce = 16;

struct FreeAddresses {
  void operator()(addrinfo* addresses) const { freeaddrinfo(addresses); }
};
using Addresses = std::unique_ptr<addrinfo, FreeAddresses>;

Addresses addresses_of(const ServerPlace& server) {
  const addrinfo wanted{.ai_socktype = SOCK_STREAM};
  addrinfo* found = nullptr;
  const std::string port = std::to_string(server.port);
  if (const int error = getaddrinfo(server.host.c_str(), port.c_str(), &wanted, &found); error != 0)
    throw Failure(fmt::format("{}: {}", server.host, gai_strerror(error)));
  return Addresses(found);
}

}  // namespace

std::optional<ServerPlace> ServerPlace::parse(const std::string& text) {
  ServerPlace place;
  std::string port;
  if (text.starts_with('[')) {
    const size_t end = text.find(']');
    if (end == std::string::npos) return std::nullopt;
    place.host = text.substr(1, end - 1);
    port = text.substr(end + 1);
  } else if (std::ranges::count(text, ':') == 1) {
    place.host = text.substr(0, text.find(':'));
    port = text.substr(text.find(':'));
  } else {
    place.host = text;
  }
  if (place.host.empty() || (!port.empty() && !port.starts_with(':'))) return std::nullopt;
  if (port.empty()) return place;
  const char* const end = port.data() + port.size();
  const auto [stop, error] = std::from_chars(port.data() + 1, end, place.port);
  if (error != std::errc{} || stop != end || place.port == 0) return std::nullopt;
  return place;
}

std::string ServerPlace::text() const {
  return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port)
                                             : fmt::format("[{}]:{}", host, port);
}

RemoteRegion::RemoteRegion(const ServerPlace& server, const std::string& name)
    : server_(server.text()), channel_(rdma_create_event_channel()) {
  if (channel_ == nullptr) throw client::failed("no event channel of rdma_cm", errno);
  fcntl(channel_->fd, F_SETFL, fcntl(channel_->fd, F_GETFL) | O_NONBLOCK);
  try {
    resolve(server);
    make_queue_pair();
    connect(name);
  } catch (...) {
    release();
    throw;
  }
}

RemoteRegion::~RemoteRegion() { release(); }

void RemoteRegion::release() {
  if (id_ == nullptr) return;
  if (connected_) rdma_disconnect(id_);
  if (id_->qp != nullptr) rdma_destroy_qp(id_);
  memory_.reset();
  completions_.reset();
  completion_channel_.reset();
  domain_.reset();
  rdma_destroy_id(id_);
  id_ = nullptr;
}

void RemoteRegion::resolve(const ServerPlace& server) {
  const Addresses addresses = addresses_of(server);
  if (rdma_create_id(channel_.get(), &id_, nullptr, RDMA_PS_TCP) != 0)
    throw client::failed("rdma_create_id", errno);
  if (rdma_resolve_addr(id_, nullptr, addresses->ai_addr, kResolveMs) != 0)
    throw client::failed(server_, errno);
  expect(RDMA_CM_EVENT_ADDR_RESOLVED);
  uint8_t timeout = kAckTimeout;
  if (rdma_set_option(id_, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout, sizeof timeout) != 0)
    throw client::failed("RDMA_OPTION_ID_ACK_TIMEOUT", errno);
  if (rdma_resolve_route(id_, kResolveMs) != 0) throw client::failed(server_, errno);
  expect(RDMA_CM_EVENT_ROUTE_RESOLVED);
}

void RemoteRegion::make_queue_pair() {
  domain_.reset(ibv_alloc_pd(id_->verbs));
  if (domain_ == nullptr) throw client::failed("ibv_alloc_pd", errno);
  completion_channel_.reset(ibv_create_comp_channel(id_->verbs));
  if (completion_channel_ == nullptr) throw client::failed("ibv_create_comp_channel", errno);
  completions_.reset(ibv_create_cq(id_->verbs, kPieces + 2, nullptr, completion_channel_.get(), 0));
  if (completions_ == nullptr) throw client::failed("ibv_create_cq", errno);
  ibv_qp_init_attr wanted{};
  wanted.send_cq = wanted.recv_cq = completions_.get();
  wanted.qp_type = IBV_QPT_RC;
  wanted.cap = {.max_send_wr = kPieces + 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1};
  if (rdma_create_qp(id_, domain_.get(), &wanted) != 0) throw client::failed("rdma_create_qp", errno);
  // The last piece is for messages.
  constexpr size_t kBytes = (kPieces + 1) * kPieceBytes;
  buffer_ = std::make_unique<std::byte[]>(kBytes);
  memory_.reset(ibv_reg_mr(domain_.get(), buffer_.get(), kBytes, int{IBV_ACCESS_LOCAL_WRITE}));
  if (memory_ == nullptr) throw client::failed(fmt::format("{} bytes cannot be registered", kBytes), errno);
}

void RemoteRegion::connect(const std::string& name) {
  const RequestBytes request = encode_request(name);
  rdma_conn_param param{};
  param.private_data = request.data();
  param.private_data_len = request.size();
  param.initiator_depth = kReadsAtOnce;
  param.retry_count = 7;
  param.rnr_retry_count = 7;
  ibv_device_attr limits{};
  if (ibv_query_device(id_->verbs, &limits) == 0)
    param.initiator_depth =
        static_cast<uint8_t>(std::clamp<int>(limits.max_qp_init_rd_atom, 1, kReadsAtOnce));
  if (rdma_connect(id_, &param) != 0) throw client::failed(server_, errno);
  for (int waited_ms = 0; waited_ms < kAnswerMs; waited_ms += kLookMs) {
    const auto event = next_event(kLookMs);
    client::throw_if_interrupted();
    if (!event) continue;
    if (event->type == RDMA_CM_EVENT_REJECTED) throw Failure(why_refused(*event, name));
    if (event->type != RDMA_CM_EVENT_ESTABLISHED) break;
    connected_ = true;
    const auto grant = parse_grant(event->private_data);
    if (!grant) throw Failure(fmt::format("{}: no memory server of this version answers there", server_));
    grant_ = *grant;
    return;
  }
  throw Failure(fmt::format("{}: no answer", server_));
}

std::string RemoteRegion::why_refused(const Event& event, const std::string& name) const {
  const auto refusal = parse_refusal(event.private_data);
  if (!refusal)
    return fmt::format(
        "{}: {}", server_,
        event.status == kInvalidServiceId ? "no memory server listens there" : "the connection is refused");
  const auto [reason, version] = *refusal;
  switch (reason) {
    case Refusal::kUnknownName:
      return fmt::format("{}: no region is called \"{}\"", server_, name);
    case Refusal::kOtherVersion:
      return fmt::format("{}: the server speaks version {} of the protocol, not {}", server_, version,
                         kVersion);
    case Refusal::kBusy:
      return fmt::format("{}: the server has too many connections", server_);
    case Refusal::kClientBusy:
      return fmt::format(
          "{}: you have too many connections to the server "
          "(service.memory_connections_per_client of its file)",
          server_);
    case Refusal::kMalformed:
    case Refusal::kFailed:
      break;
  }
  return fmt::format("{}: the server refuses the connection", server_);
}

void RemoteRegion::expect(rdma_cm_event_type type) {
  std::optional<Event> event;
  for (int waited_ms = 0; !event && waited_ms <= 2 * kResolveMs; waited_ms += kLookMs) {
    event = next_event(kLookMs);
    client::throw_if_interrupted();
  }
  if (event && event->type == type) return;
  const int code = event && event->status < 0 ? -event->status : ETIMEDOUT;
  throw client::failed(fmt::format("{}: no way leads there", server_), code);
}

std::optional<RemoteRegion::Event> RemoteRegion::next_event(int wait_ms) {
  pollfd waiting{channel_->fd, POLLIN, 0};
  if (poll(&waiting, 1, wait_ms) <= 0) return std::nullopt;
  rdma_cm_event* event = nullptr;
  if (rdma_get_cm_event(channel_.get(), &event) != 0) return std::nullopt;
  Event copy{event->event, event->status, {}};
  const auto* bytes = static_cast<const std::byte*>(event->param.conn.private_data);
  const bool answers = copy.type == RDMA_CM_EVENT_ESTABLISHED || copy.type == RDMA_CM_EVENT_REJECTED;
  if (answers && bytes != nullptr)
    copy.private_data.assign(bytes, bytes + event->param.conn.private_data_len);
  rdma_ack_cm_event(event);
  return copy;
}

}  // namespace uroce::memory_export
