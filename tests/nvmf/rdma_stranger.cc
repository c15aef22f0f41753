#include "tests/nvmf/rdma_stranger.h"

#include <arpa/inet.h>
#include <poll.h>

#include <atomic>
#include <cerrno>
#include <system_error>
#include <utility>

#include "nvmf/rdma/private_data.h"

namespace uroce::testing {
namespace {

constexpr int kHopelessMs = 60'000;
std::atomic<uint32_t> next_queue_pair{0x800000};

void must(bool good, const char* what) {
  if (!good) throw std::system_error(errno, std::generic_category(), what);
}

sockaddr_in address_of(const std::string& text, uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  must(inet_pton(AF_INET, text.c_str(), &address.sin_addr) == 1, "inet_pton");
  return address;
}

}  // namespace

RdmaStranger::RdmaStranger(Options options)
    : options_(std::move(options)), channel_(rdma_create_event_channel()) {
  must(channel_ != nullptr, "rdma_create_event_channel");
}

RdmaStranger::~RdmaStranger() { withdraw(); }

std::optional<rdma_cm_event_type> RdmaStranger::next_event(int timeout_ms) {
  pollfd waiting{.fd = channel_->fd, .events = POLLIN, .revents = 0};
  if (::poll(&waiting, 1, timeout_ms) != 1) return std::nullopt;
  rdma_cm_event* event = nullptr;
  must(rdma_get_cm_event(channel_.get(), &event) == 0, "rdma_get_cm_event");
  const rdma_cm_event_type type = event->event;
  rdma_ack_cm_event(event);
  return type;
}

void RdmaStranger::resolve() {
  must(rdma_create_id(channel_.get(), &id_, nullptr, RDMA_PS_TCP) == 0, "rdma_create_id");
  sockaddr_in own = address_of(options_.own_address, 0);
  sockaddr_in target = address_of(options_.target_address, options_.port);
  must(rdma_resolve_addr(id_, reinterpret_cast<sockaddr*>(&own), reinterpret_cast<sockaddr*>(&target),
                         kHopelessMs) == 0,
       "rdma_resolve_addr");
  must(next_event(kHopelessMs) == RDMA_CM_EVENT_ADDR_RESOLVED, "address");
  must(rdma_resolve_route(id_, kHopelessMs) == 0, "rdma_resolve_route");
  must(next_event(kHopelessMs) == RDMA_CM_EVENT_ROUTE_RESOLVED, "route");
}

void RdmaStranger::request(std::span<const std::byte> private_data, std::optional<uint32_t> queue_pair) {
  withdraw();
  resolve();
  rdma_conn_param param{};
  param.private_data = private_data.data();
  param.private_data_len = static_cast<uint8_t>(private_data.size());
  param.responder_resources = param.initiator_depth = 16;
  param.retry_count = param.rnr_retry_count = 7;
  param.qp_num = queue_pair.value_or(next_queue_pair++ & 0xFFFFFF);
  must(rdma_connect(id_, &param) == 0, "rdma_connect");
}

void RdmaStranger::request_queue(uint16_t qid) {
  const nvmf::RdmaRequestData data{.record_format = 0,
                                   .qid = qid,
                                   .host_receive_size = 32,
                                   .host_send_size = 31,
                                   .controller_id = 0,
                                   .reserved10 = {}};
  request(std::as_bytes(std::span(&data, 1)));
}

RdmaStranger::Answer RdmaStranger::wait_ms(int timeout_ms) {
  const auto event = next_event(timeout_ms);
  if (!event) return Answer::kNone;
  return *event == RDMA_CM_EVENT_CONNECT_RESPONSE ? Answer::kAccepted : Answer::kRefused;
}

// The target may have ended it meanwhile, which is no failure here.
void RdmaStranger::establish() { static_cast<void>(rdma_establish(id_)); }
void RdmaStranger::reject() { static_cast<void>(rdma_reject(id_, nullptr, 0)); }
void RdmaStranger::disconnect() { static_cast<void>(rdma_disconnect(id_)); }

void RdmaStranger::withdraw() {
  if (id_ != nullptr) rdma_destroy_id(std::exchange(id_, nullptr));
}

}  // namespace uroce::testing
