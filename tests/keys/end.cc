#include "tests/keys/end.h"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "client/failure.h"
#include "client/patience.h"

namespace uroce::keys {
namespace {

constexpr size_t kPage = 4096;
constexpr uint32_t kRequests = 8;
constexpr int kRights =
    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_MW_BIND;

ibv_qp* create_queue_pair(ibv_context* context, ibv_pd* domain, ibv_cq* completions,
                          uint64_t send_ops_flags) {
  const ibv_qp_cap caps{.max_send_wr = kRequests,
                        .max_recv_wr = kRequests,
                        .max_send_sge = 1,
                        .max_recv_sge = 1,
                        .max_inline_data = 0};
  if (send_ops_flags == 0) {
    ibv_qp_init_attr initial{};
    initial.send_cq = initial.recv_cq = completions;
    initial.qp_type = IBV_QPT_RC;
    initial.cap = caps;
    initial.sq_sig_all = 1;
    return ibv_create_qp(domain, &initial);
  }
  ibv_qp_init_attr_ex initial{};
  initial.send_cq = initial.recv_cq = completions;
  initial.qp_type = IBV_QPT_RC;
  initial.cap = caps;
  initial.sq_sig_all = 1;
  initial.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  initial.pd = domain;
  initial.send_ops_flags = send_ops_flags;
  return ibv_create_qp_ex(context, &initial);
}

}  // namespace

void check(int error, const char* call) {
  if (error != 0) throw client::failed(call, error);
}

Options parse(int argc, char** argv) {
  Options options;
  for (int option = 0; (option = getopt(argc, argv, "d:g:m:p:")) != -1;) {
    switch (option) {
      case 'd':
        options.device = optarg;
        break;
      case 'g':
        options.gid_index = static_cast<uint32_t>(std::strtoul(optarg, nullptr, 10));
        break;
      case 'm':
        options.path_mtu = static_cast<uint32_t>(std::strtoul(optarg, nullptr, 10));
        break;
      case 'p':
        options.tcp_port = static_cast<uint16_t>(std::strtoul(optarg, nullptr, 10));
        break;
      default:
        throw client::Failure("usage: -d DEVICE -g GID_INDEX -m PATH_MTU -p TCP_PORT [OWNER]");
    }
  }
  if (optind < argc) options.owner = argv[optind];
  return options;
}

void fill(std::span<std::byte> to, uint32_t seed, uint64_t at) {
  for (size_t i = 0; i < to.size(); ++i) to[i] = pattern(seed, at + i);
}

bool is_filled(std::span<const std::byte> with, uint32_t seed, uint64_t at) {
  for (size_t i = 0; i < with.size(); ++i) {
    if (with[i] != pattern(seed, at + i)) return false;
  }
  return true;
}

End::End(const Options& options, uint64_t send_ops_flags)
    : device_(client::VerbsDevice::open({.name = options.device, .port = 1, .gid_index = options.gid_index})),
      path_mtu_(client::path_mtu_of(options.path_mtu).value_or(IBV_MTU_1024)),
      domain_(ibv_alloc_pd(context())),
      buffer_(static_cast<std::byte*>(std::aligned_alloc(kPage, kBufferBytes))) {
  if (!domain_) throw client::failed("ibv_alloc_pd", errno);
  std::ranges::fill(buffer(), std::byte{0});
  region_.reset(ibv_reg_mr(domain(), buffer_.get(), kBufferBytes, kRights));
  if (!region_) throw client::failed("ibv_reg_mr", errno);
  completions_.reset(ibv_create_cq(context(), 2 * kRequests, nullptr, nullptr, 0));
  if (!completions_) throw client::failed("ibv_create_cq", errno);
  queue_pair_.reset(create_queue_pair(context(), domain(), completions_.get(), send_ops_flags));
  if (!queue_pair_) throw client::failed("ibv_create_qp", errno);
}

nlohmann::json End::address() const {
  return {{"queue_pair", queue_pair_->qp_num},
          {"gid", std::to_array(device_.gid.raw)},
          {"buffer_address", reinterpret_cast<uint64_t>(buffer_.get())},
          {"buffer_key", region_->rkey}};
}

void End::modify(ibv_qp_attr attributes, int mask, const char* to_state) {
  if (const int error = ibv_modify_qp(queue_pair(), &attributes, mask)) {
    throw client::failed(fmt::format("ibv_modify_qp to {}", to_state), error);
  }
}

void End::connect(uint32_t psn) {
  device_.wait_until_active();
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RESET;
  modify(attributes, IBV_QP_STATE, "RESET");
  for (ibv_wc forgotten; ibv_poll_cq(completions_.get(), 1, &forgotten) == 1;) {
  }
  attributes.qp_state = IBV_QPS_INIT;
  attributes.port_num = device_.port;
  attributes.qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
  modify(attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, "INIT");
  attributes = {};
  attributes.qp_state = IBV_QPS_RTR;
  attributes.path_mtu = path_mtu_;
  attributes.dest_qp_num = peer_.at("queue_pair").get<uint32_t>();
  attributes.rq_psn = psn;
  attributes.max_dest_rd_atomic = 1;
  attributes.min_rnr_timer = 12;
  attributes.ah_attr.port_num = device_.port;
  attributes.ah_attr.is_global = 1;
  std::ranges::copy(peer_.at("gid").get<std::array<uint8_t, 16>>(), attributes.ah_attr.grh.dgid.raw);
  attributes.ah_attr.grh.sgid_index = static_cast<uint8_t>(device_.gid_index);
  attributes.ah_attr.grh.hop_limit = 64;
  modify(attributes,
         IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
             IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
         "RTR");
  attributes.qp_state = IBV_QPS_RTS;
  attributes.sq_psn = psn;
  attributes.timeout = 16;  // 0.27 s: the kernel's guest is slow to answer
  attributes.retry_cnt = 7;
  attributes.rnr_retry = 7;
  attributes.max_rd_atomic = 1;
  modify(attributes,
         IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
             IBV_QP_MAX_QP_RD_ATOMIC,
         "RTS");
}

ibv_qp_state End::state() const {
  ibv_qp_attr attributes{};
  ibv_qp_init_attr initial{};
  check(ibv_query_qp(queue_pair(), &attributes, IBV_QP_STATE, &initial), "ibv_query_qp");
  return attributes.qp_state;
}

ibv_wc End::execute(ibv_wr_opcode operation, uint64_t address, uint32_t key, uint32_t bytes) {
  ibv_sge segment{.addr = reinterpret_cast<uint64_t>(buffer_.get()), .length = bytes, .lkey = region_->lkey};
  ibv_send_wr request{};
  request.opcode = operation;
  request.sg_list = &segment;
  request.num_sge = 1;
  if (operation == IBV_WR_SEND_WITH_INV) {
    request.invalidate_rkey = key;
  } else {
    request.wr.rdma.remote_addr = address;
    request.wr.rdma.rkey = key;
  }
  post(request);
  return completion();
}

void End::post(ibv_send_wr& request) {
  ibv_send_wr* bad = nullptr;
  check(ibv_post_send(queue_pair(), &request, &bad), "ibv_post_send");
}

void End::post_receive(uint32_t bytes) {
  ibv_sge segment{.addr = reinterpret_cast<uint64_t>(buffer_.get()), .length = bytes, .lkey = region_->lkey};
  ibv_recv_wr request{.wr_id = 0, .next = nullptr, .sg_list = &segment, .num_sge = 1};
  ibv_recv_wr* bad = nullptr;
  check(ibv_post_recv(queue_pair(), &request, &bad), "ibv_post_recv");
}

ibv_wc End::completion() {
  client::Patience patience("a completion");
  for (;;) {
    ibv_wc found{};
    const int count = ibv_poll_cq(completions_.get(), 1, &found);
    if (count == 1) return found;
    if (count < 0) throw client::Failure("ibv_poll_cq failed");
    patience.waited();
    // The one CPU of the kernel's guest has the packets to look after, too.
    sched_yield();
  }
}

void End::close() {
  check(ibv_destroy_qp(queue_pair_.release()), "ibv_destroy_qp");
  check(ibv_destroy_cq(completions_.release()), "ibv_destroy_cq");
  check(ibv_dereg_mr(region_.release()), "ibv_dereg_mr");
  check(ibv_dealloc_pd(domain_.release()), "ibv_dealloc_pd");
}

}  // namespace uroce::keys
