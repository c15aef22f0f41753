#include "apps/perf/ends/connection.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <random>

#include "apps/perf/ends/objects.h"

namespace uroce::perf {
namespace {

constexpr uint32_t kQkey = 0x00C0FFEE;  // of all queue pairs of UD

ibv_qp_type type_of(Service service) {
  return service == Service::kRc ? IBV_QPT_RC : service == Service::kUc ? IBV_QPT_UC : IBV_QPT_UD;
}

uint32_t random_psn() {
  static std::random_device source;
  return source() & 0xFFFFFF;
}

}  // namespace

ibv_wr_opcode opcode_of(Service service, Operation operation) {
  switch (operation) {
    case Operation::kWrite:
      return is_reliable(service) ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_WRITE_WITH_IMM;
    case Operation::kRead:
      return IBV_WR_RDMA_READ;
    case Operation::kFetchAdd:
      return IBV_WR_ATOMIC_FETCH_AND_ADD;
    case Operation::kCompareSwap:
      return IBV_WR_ATOMIC_CMP_AND_SWP;
    case Operation::kSend:
      break;
  }
  return is_reliable(service) ? IBV_WR_SEND : IBV_WR_SEND_WITH_IMM;
}

Connection::Connection(client::VerbsDevice& device, const Plan& plan, const Queues& queues)
    : device_(device), plan_(plan), domain_(queues.domain), psn_(random_psn()) {
  ibv_qp_init_attr initial{};
  initial.send_cq = initial.recv_cq = queues.completions;
  initial.qp_type = type_of(plan.service);
  initial.cap = {.max_send_wr = queues.send_depth,
                 .max_recv_wr = queues.receive_depth,
                 .max_send_sge = 1,
                 .max_recv_sge = 1,
                 .max_inline_data = 0};
  queue_pair_.reset(ibv_create_qp(domain_, &initial));
  if (!queue_pair_) throw client::failed("ibv_create_qp on " + device_.name, errno);

  ibv_qp_attr init{};
  init.qp_state = IBV_QPS_INIT;
  init.port_num = device_.port;
  init.qkey = kQkey;
  init.qp_access_flags = static_cast<unsigned>(access_for(device_));
  modify(init,
         IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
             (plan_.service == Service::kUd ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS),
         "INIT");
}

Address Connection::address() const {
  return {.queue_pair = queue_pair_->qp_num,
          .psn = psn_,
          .lid = device_.port_attributes.lid,
          .gid = device_.gid,
          .path_mtu = client::bytes_of(device_.port_attributes.active_mtu),
          .reads_in_max = static_cast<uint32_t>(device_.limits.max_qp_rd_atom)};
}

void Connection::modify(ibv_qp_attr attributes, int mask, const char* to_state) {
  if (const int error = ibv_modify_qp(queue_pair_.get(), &attributes, mask)) {
    throw client::failed(
        fmt::format("ibv_modify_qp to {} on {}, peer {}", to_state, device_.name, client::text_of(peer_.gid)),
        error);
  }
}

void Connection::connect(const Address& peer, uint64_t size_max) {
  peer_ = peer;
  device_.wait_until_active();
  const uint32_t carried = std::min(client::bytes_of(device_.port_attributes.active_mtu), peer.path_mtu);
  if (plan_.path_mtu.value_or(0) > carried) {
    throw client::Failure(fmt::format("--path-mtu {}: the path from {} to {} carries {}", *plan_.path_mtu,
                                      client::text_of(device_.gid), client::text_of(peer.gid), carried));
  }
  path_mtu_ = plan_.path_mtu.value_or(carried);
  if (is_reliable(plan_.service)) {
    connect_reliably();
  } else {
    connect_unreliably(size_max);
  }
}

ibv_ah_attr Connection::way_to_peer() const {
  ibv_ah_attr way{};
  way.port_num = device_.port;
  way.dlid = peer_.lid;
  way.is_global = 1;
  way.grh.dgid = peer_.gid;
  way.grh.sgid_index = static_cast<uint8_t>(device_.gid_index);
  way.grh.hop_limit = 64;
  return way;
}

void Connection::connect_reliably() {
  constexpr uint32_t kReadsMax = 16;
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTR;
  attributes.path_mtu = client::path_mtu_of(path_mtu_).value_or(IBV_MTU_1024);
  attributes.dest_qp_num = peer_.queue_pair;
  attributes.rq_psn = peer_.psn;
  attributes.max_dest_rd_atomic =
      static_cast<uint8_t>(std::min(kReadsMax, static_cast<uint32_t>(device_.limits.max_qp_rd_atom)));
  attributes.min_rnr_timer = 12;
  attributes.ah_attr = way_to_peer();
  modify(attributes,
         IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
             IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
         "RTR");

  attributes.qp_state = IBV_QPS_RTS;
  attributes.sq_psn = psn_;
  attributes.timeout = static_cast<uint8_t>(plan_.ack_timeout);
  attributes.retry_cnt = 7;
  attributes.rnr_retry = 7;
  attributes.max_rd_atomic =
      static_cast<uint8_t>(std::min({kReadsMax, static_cast<uint32_t>(device_.limits.max_qp_init_rd_atom),
                                     std::max(peer_.reads_in_max, 1u)}));
  modify(attributes,
         IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
             IBV_QP_MAX_QP_RD_ATOMIC,
         "RTS");
}

void Connection::connect_unreliably(uint64_t size_max) {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTR;
  attributes.path_mtu = client::path_mtu_of(path_mtu_).value_or(IBV_MTU_1024);
  attributes.dest_qp_num = peer_.queue_pair;
  attributes.rq_psn = peer_.psn;
  attributes.sq_psn = psn_;
  attributes.ah_attr = way_to_peer();
  constexpr int kConnected = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
  modify(attributes, IBV_QP_STATE | (plan_.service == Service::kUc ? kConnected : 0), "RTR");
  attributes.qp_state = IBV_QPS_RTS;
  modify(attributes, IBV_QP_STATE | IBV_QP_SQ_PSN, "RTS");
  if (plan_.service != Service::kUd) return;
  if (size_max > path_mtu_) {
    throw client::Failure(
        fmt::format("--size {}: a message of UD is one packet, and the path from {} to {} carries {}",
                    size_max, client::text_of(device_.gid), client::text_of(peer_.gid), path_mtu_));
  }
  way_.reset(ibv_create_ah(domain_, &attributes.ah_attr));
  if (!way_)
    throw client::failed(
        fmt::format("ibv_create_ah on {}, peer {}", device_.name, client::text_of(peer_.gid)), errno);
}

void Connection::post_receives(uint64_t id, std::span<ibv_sge> segments) const {
  std::array<ibv_recv_wr, kBatchMax> requests;
  for (size_t i = 0; i < segments.size(); ++i)
    requests[i] = {.wr_id = kReceiveMark | id,
                   .next = i + 1 < segments.size() ? &requests[i + 1] : nullptr,
                   .sg_list = &segments[i],
                   .num_sge = 1};
  ibv_recv_wr* bad = nullptr;
  if (const int error = ibv_post_recv(queue_pair(), requests.data(), &bad))
    throw client::failed("ibv_post_recv on " + device_.name, error);
}

client::Failure Connection::failure_of(const std::string& what, const ibv_wc& completion) const {
  return client::Failure(fmt::format(
      "{} on {}, peer {}: {} (status {}, vendor error {:#x})", what, device_.name, client::text_of(peer_.gid),
      ibv_wc_status_str(completion.status), static_cast<int>(completion.status), completion.vendor_err));
}

void Connection::aim(ibv_send_wr& request) const {
  request.wr.ud = {.ah = way_.get(), .remote_qpn = peer_.queue_pair, .remote_qkey = kQkey};
}

}  // namespace uroce::perf
