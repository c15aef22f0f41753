#include "ends.h"

#include <arpa/inet.h>
#include <poll.h>
#include <rdma/rdma_verbs.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <numeric>
#include <stdexcept>
#include <system_error>

namespace uroce::rdmacm_test {
namespace {

constexpr int kResolveMs = 30'000;
constexpr int kHopelessMs = 60'000;

struct Deregister {
  void operator()(ibv_mr* region) const { EXPECT_EQ(ibv_dereg_mr(region), 0); }
};
using Region = std::unique_ptr<ibv_mr, Deregister>;

void expect_success(int completions, const ibv_wc& completion) {
  if (completions != 1) throw std::runtime_error("no completion");
  EXPECT_EQ(completion.status, IBV_WC_SUCCESS);
}

}  // namespace

void must(int returned) {
  if (returned != 0) throw std::system_error(errno, std::generic_category());
}

int error_of(int returned) {
  EXPECT_TRUE(returned == 0 || returned == -1) << returned;
  return returned == 0 ? 0 : errno;
}

Address::Address(const std::string& text, uint16_t port) {
  auto& four = reinterpret_cast<sockaddr_in&>(storage_);
  auto& six = reinterpret_cast<sockaddr_in6&>(storage_);
  if (inet_pton(AF_INET, text.c_str(), &four.sin_addr) == 1) {
    four.sin_family = AF_INET;
    four.sin_port = htons(port);
  } else if (inet_pton(AF_INET6, text.c_str(), &six.sin6_addr) == 1) {
    six.sin6_family = AF_INET6;
    six.sin6_port = htons(port);
  } else {
    throw std::invalid_argument(text);
  }
}

Channel::Channel() : face_(rdma_create_event_channel()) {
  if (face_ == nullptr) throw std::system_error(errno, std::generic_category());
}

Channel::~Channel() { rdma_destroy_event_channel(face_); }

bool Channel::readable(int milliseconds) const {
  pollfd waiting{.fd = face_->fd, .events = POLLIN, .revents = 0};
  return poll(&waiting, 1, milliseconds) == 1;
}

Event Channel::take(rdma_cm_event_type type) const {
  if (!readable(kHopelessMs)) throw std::runtime_error(std::string("no ") + rdma_event_str(type));
  rdma_cm_event* event = nullptr;
  must(rdma_get_cm_event(face_, &event));
  Event taken(event);
  if (taken->event != type)
    throw std::runtime_error(std::string(rdma_event_str(taken->event)) + " and not " + rdma_event_str(type) +
                             ", status " + std::to_string(taken->status));
  return taken;
}

Id::Id(const Channel& channel, rdma_port_space space) {
  must(rdma_create_id(channel.get(), &face_, nullptr, space));
}

Id& Id::operator=(Id&& other) noexcept {
  end();
  face_ = std::exchange(other.face_, nullptr);
  return *this;
}

void Id::end() {
  if (face_ == nullptr) return;
  if (face_->qp != nullptr) rdma_destroy_qp(face_);
  if (face_->srq != nullptr) rdma_destroy_srq(face_);
  EXPECT_EQ(rdma_destroy_id(std::exchange(face_, nullptr)), 0);
}

uint16_t Id::port() const { return ntohs(rdma_get_src_port(face_)); }

ibv_qp_state Id::qp_state() const {
  ibv_qp_attr attributes{};
  ibv_qp_init_attr initial{};
  EXPECT_EQ(ibv_query_qp(face_->qp, &attributes, IBV_QP_STATE, &initial), 0);
  return attributes.qp_state;
}

ibv_qp_init_attr queue_pair_of(ibv_qp_type type) {
  ibv_qp_init_attr wanted{};
  wanted.qp_type = type;
  wanted.sq_sig_all = 1;
  wanted.cap = {
      .max_send_wr = 24, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
  return wanted;
}

void make_queue_pair(const Id& id, ibv_qp_type type) {
  ibv_qp_init_attr wanted = queue_pair_of(type);
  must(rdma_create_qp(id.get(), nullptr, &wanted));
}

void exchange_data(const Id& from, const Id& to) {
  std::vector<uint8_t> source(3000);
  std::iota(source.begin(), source.end(), uint8_t{1});
  std::vector<uint8_t> target(source.size());
  std::vector<uint8_t> message(64);
  const Region source_region(rdma_reg_msgs(from.get(), source.data(), source.size()));
  const Region target_region(rdma_reg_write(to.get(), target.data(), target.size()));
  const Region message_region(rdma_reg_msgs(to.get(), message.data(), message.size()));
  ASSERT_TRUE(source_region && target_region && message_region);
  must(rdma_post_recv(to.get(), nullptr, message.data(), message.size(), message_region.get()));
  must(rdma_post_write(from.get(), nullptr, source.data(), source.size(), source_region.get(), 0,
                       reinterpret_cast<uintptr_t>(target.data()), target_region->rkey));
  ibv_wc completion{};
  expect_success(rdma_get_send_comp(from.get(), &completion), completion);
  must(rdma_post_send(from.get(), nullptr, source.data(), message.size(), source_region.get(), 0));
  expect_success(rdma_get_send_comp(from.get(), &completion), completion);
  expect_success(rdma_get_recv_comp(to.get(), &completion), completion);
  EXPECT_EQ(source, target);
  EXPECT_EQ(completion.byte_len, message.size());
  EXPECT_EQ(std::memcmp(message.data(), source.data(), message.size()), 0);
}

std::span<const uint8_t> private_data_of(const rdma_cm_event& event) {
  const bool datagram = event.id->qp_type == IBV_QPT_UD;
  return {static_cast<const uint8_t*>(datagram ? event.param.ud.private_data : event.param.conn.private_data),
          datagram ? event.param.ud.private_data_len : event.param.conn.private_data_len};
}

std::vector<uint8_t> counting(size_t count, size_t size) {
  std::vector<uint8_t> bytes(count);
  std::iota(bytes.begin(), bytes.end(), uint8_t{1});
  if (size > count) bytes.resize(size);
  return bytes;
}

void Ends::listen(int backlog, rdma_port_space space) {
  listener = Id(server_channel, space);
  must(rdma_bind_addr(listener.get(), Address(at_server).get()));
  must(rdma_listen(listener.get(), backlog));
}

Id Ends::caller(const Channel& channel, rdma_port_space space, uint8_t type_of_service) const {
  Id made(channel, space);
  if (type_of_service != 0)
    must(rdma_set_option(made.get(), RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &type_of_service, 1));
  must(rdma_resolve_addr(made.get(), Address(at_client).get(), Address(at_server, listener.port()).get(),
                         kResolveMs));
  channel.take(RDMA_CM_EVENT_ADDR_RESOLVED);
  must(rdma_resolve_route(made.get(), kResolveMs));
  channel.take(RDMA_CM_EVENT_ROUTE_RESOLVED);
  return made;
}

void Ends::prepare(ibv_qp_type type) {
  client = caller(client_channel, type == IBV_QPT_UD ? RDMA_PS_UDP : RDMA_PS_TCP);
  make_queue_pair(client, type);
}

Event Ends::request(ibv_qp_type type, const rdma_conn_param* param) {
  prepare(type);
  rdma_conn_param copy = param != nullptr ? *param : rdma_conn_param{};
  must(rdma_connect(client.get(), param != nullptr ? &copy : nullptr));
  Event asked = server_channel.take(RDMA_CM_EVENT_CONNECT_REQUEST);
  server = Id(asked->id);
  make_queue_pair(server, type);
  return asked;
}

Event Ends::accept(const rdma_conn_param* param) {
  rdma_conn_param copy = param != nullptr ? *param : rdma_conn_param{};
  must(rdma_accept(server.get(), param != nullptr ? &copy : nullptr));
  Event established = client_channel.take(RDMA_CM_EVENT_ESTABLISHED);
  if (client->qp_type != IBV_QPT_UD) server_channel.take(RDMA_CM_EVENT_ESTABLISHED);
  return established;
}

void Ends::connect(ibv_qp_type type) {
  listen();
  request(type);
  accept();
}

}  // namespace uroce::rdmacm_test
