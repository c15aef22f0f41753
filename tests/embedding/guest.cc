#include "guest.h"

#include <sys/wait.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <numeric>

namespace uroce::embedding {

namespace {

constexpr uint8_t kPort = 1;
constexpr uint8_t kGidIndex = 1;

}  // namespace

Connection::Connection(bool connected) {
  int count = 0;
  ibv_device** list = ibv_get_device_list(&count);
  REQUIRE(list != nullptr && count == 2);
  for (size_t i = 0; i < ends_.size(); ++i) {
    ends_[i].context = ibv_open_device(list[i]);
    REQUIRE(ends_[i].context != nullptr);
  }
  ibv_free_device_list(list);
  if (!connected) return;
  for (End& end : ends_) make(end);
  connect(ends_[0], ends_[1]);
  connect(ends_[1], ends_[0]);
}

void Connection::make(End& end) {
  constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
  end.pd = ibv_alloc_pd(end.context);
  end.channel = ibv_create_comp_channel(end.context);
  REQUIRE(end.channel != nullptr);
  end.cq = ibv_create_cq(end.context, 64, nullptr, end.channel, 0);
  end.mr = ibv_reg_mr(end.pd, end.memory.data(), end.memory.size(), kAccess);
  REQUIRE(end.cq != nullptr && end.mr != nullptr);
  ibv_qp_init_attr initial{};
  initial.send_cq = initial.recv_cq = end.cq;
  initial.qp_type = IBV_QPT_RC;
  initial.cap = {
      .max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
  end.qp = ibv_create_qp(end.pd, &initial);
  REQUIRE(end.qp != nullptr);
}

void Connection::connect(End& end, const End& peer) {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.port_num = kPort;
  attributes.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
  REQUIRE(ibv_modify_qp(end.qp, &attributes,
                        IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0);
  attributes = {};
  attributes.qp_state = IBV_QPS_RTR;
  attributes.path_mtu = IBV_MTU_1024;
  attributes.dest_qp_num = peer.qp->qp_num;
  attributes.min_rnr_timer = 12;
  attributes.ah_attr.is_global = 1;
  attributes.ah_attr.port_num = kPort;
  attributes.ah_attr.grh.sgid_index = kGidIndex;
  attributes.ah_attr.grh.hop_limit = 1;
  REQUIRE(ibv_query_gid(peer.context, kPort, kGidIndex, &attributes.ah_attr.grh.dgid) == 0);
  REQUIRE(ibv_modify_qp(end.qp, &attributes,
                        IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                            IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == 0);
  attributes = {};
  attributes.qp_state = IBV_QPS_RTS;
  attributes.timeout = 18;  // a second: the machine may be busy
  attributes.retry_cnt = 7;
  attributes.rnr_retry = 7;
  REQUIRE(ibv_modify_qp(end.qp, &attributes,
                        IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                            IBV_QP_MAX_QP_RD_ATOMIC) == 0);
}

int Connection::post() {
  ibv_sge segment{reinterpret_cast<uintptr_t>(ends_[0].memory.data()),
                  static_cast<uint32_t>(ends_[0].memory.size()), ends_[0].mr->lkey};
  ibv_send_wr request{};
  request.sg_list = &segment;
  request.num_sge = 1;
  request.opcode = IBV_WR_RDMA_WRITE;
  request.send_flags = IBV_SEND_SIGNALED;
  request.wr.rdma.remote_addr = reinterpret_cast<uintptr_t>(ends_[1].memory.data());
  request.wr.rdma.rkey = ends_[1].mr->rkey;
  ibv_send_wr* bad = nullptr;
  return ibv_post_send(ends_[0].qp, &request, &bad);
}

void Connection::exchange() {
  std::iota(ends_[0].memory.begin(), ends_[0].memory.end(), ++pattern_);
  REQUIRE(post() == 0);
  ibv_wc completion{};
  int got = 0;
  while (got == 0) got = ibv_poll_cq(ends_[0].cq, 1, &completion);
  REQUIRE(got == 1);
  REQUIRE(completion.status == IBV_WC_SUCCESS);
  REQUIRE(ends_[0].memory == ends_[1].memory);
}

void Connection::leave_work_behind() {
  for (int i = 0; i < 16; ++i) REQUIRE(post() == 0);
}

void Connection::close() {
  for (End& end : ends_) {
    if (end.qp != nullptr) {
      REQUIRE(ibv_destroy_qp(end.qp) == 0);
      REQUIRE(ibv_dereg_mr(end.mr) == 0);
      REQUIRE(ibv_destroy_cq(end.cq) == 0);
      REQUIRE(ibv_destroy_comp_channel(end.channel) == 0);
      REQUIRE(ibv_dealloc_pd(end.pd) == 0);
    }
    REQUIRE(ibv_close_device(end.context) == 0);
  }
}

void Connection::abandon() {
  for (End& end : ends_) {
    (void)ibv_destroy_qp(end.qp);
    (void)ibv_dereg_mr(end.mr);
    (void)ibv_destroy_cq(end.cq);
    (void)ibv_destroy_comp_channel(end.channel);
    (void)ibv_dealloc_pd(end.pd);
    (void)ibv_close_device(end.context);
  }
}

std::vector<ThreadSeen> other_threads() {
  std::vector<ThreadSeen> threads;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
    ThreadSeen seen{
        .id = std::stoi(entry.path().filename()), .name = {}, .blocked_signals = 0, .processors = {}};
    if (seen.id == getpid()) continue;
    std::ifstream status(entry.path() / "status");
    for (std::string line; std::getline(status, line);) {
      const size_t value = line.find_first_not_of(" \t", line.find(':') + 1);
      if (line.starts_with("Name:")) seen.name = line.substr(value);
      if (line.starts_with("SigBlk:")) seen.blocked_signals = std::stoull(line.substr(value), nullptr, 16);
      if (line.starts_with("Cpus_allowed_list:")) seen.processors = line.substr(value);
    }
    threads.push_back(std::move(seen));
  }
  return threads;
}

int status_of(pid_t child) {
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

[[noreturn]] void stay_until_killed() {
  Connection connection;
  connection.exchange();
  std::puts("ready");
  std::fflush(stdout);
  for (;;) connection.exchange();
}

}  // namespace uroce::embedding

int main(int argc, char** argv) {
  std::vector<uroce::embedding::Scenario> all;
  for (const auto& some :
       {uroce::embedding::cancelling_scenarios(), uroce::embedding::signal_scenarios(),
        uroce::embedding::thread_scenarios(), uroce::embedding::jumping_scenarios(),
        uroce::embedding::leaving_scenarios(), uroce::embedding::forking_scenarios(),
        uroce::embedding::descriptor_scenarios(), uroce::embedding::environment_scenarios()}) {
    all.insert(all.end(), some.begin(), some.end());
  }
  const std::string_view wanted = argc > 1 ? argv[1] : "";
  if (wanted == "stays-until-killed") uroce::embedding::stay_until_killed();
  for (const auto& scenario : all) {
    if (scenario.name == wanted) return scenario.run();
    if (wanted.empty()) std::printf("%.*s\n", static_cast<int>(scenario.name.size()), scenario.name.data());
  }
  return wanted.empty() ? 0 : 2;
}
