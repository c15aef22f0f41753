#include "tests/judge/end.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "client/failure.h"
#include "client/pattern.h"
#include "tests/judge/lists.h"
#include "tests/judge/outcome.h"

namespace uroce::judge {
namespace {

constexpr size_t kPage = 4096;
constexpr uint32_t kInlineWanted = 64;
constexpr int kPolledAtOnce = 32;
constexpr int kRemote = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;

int target_access(const client::VerbsDevice& device) {
  const bool windows = (device.limits.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2B) != 0;
  return kRemote | IBV_ACCESS_REMOTE_ATOMIC | (windows ? IBV_ACCESS_MW_BIND : 0);
}

}  // namespace

Arena::Arena(ibv_pd* domain, size_t bytes, int access)
    : bytes_(static_cast<std::byte*>(std::aligned_alloc(kPage, bytes))),
      size_(bytes),
      region_(ibv_reg_mr(domain, bytes_.get(), bytes, access)) {
  if (!region_) throw client::failed("ibv_reg_mr", errno);
  std::memset(bytes_.get(), static_cast<int>(client::kPoison), size_);
}

void Arena::poison(uint32_t offset, uint32_t length) {
  std::memset(bytes_.get() + offset, static_cast<int>(client::kPoison), length);
}

void Arena::expect_untouched(uint32_t length, const char* what) {
  const auto looked_at = bytes(0, length);
  // All bytes are alike when each is like the next.
  if (length == 0 || (looked_at[0] == client::kPoison &&
                      std::memcmp(looked_at.data(), looked_at.data() + 1, length - 1) == 0)) {
    return;
  }
  const size_t at = client::first_touched(looked_at).value_or(0);
  throw Wrong(fmt::format("{}: byte {} has 0x{:02x}, and nothing should have written to it", what, at,
                          static_cast<unsigned>(looked_at[at])));
}

End::End(const Options& options)
    : options_(options),
      device_(client::VerbsDevice::open({.name = options.device, .port = 1, .gid_index = options.gid_index})),
      domain_(ibv_alloc_pd(device_.context.get())),
      target_(domain_.get(), kTargetBytes, target_access(device_)),
      local_(domain_.get(), kArenaBytes, IBV_ACCESS_LOCAL_WRITE),
      received_(domain_.get(), kArenaBytes, IBV_ACCESS_LOCAL_WRITE),
      completions_(ibv_create_cq(device_.context.get(), 4 * kDepthMax, nullptr, nullptr, 0)),
      polled_(kPolledAtOnce) {
  if (!completions_) throw client::failed("ibv_create_cq", errno);
  if (!device_.has_atomics()) throw client::Failure(device_.name + " has no atomics");
}

bool End::has_windows() const {
  return (device_.limits.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2B) != 0;
}

uint8_t End::read_depth_max() const {
  return static_cast<uint8_t>(
      std::min({device_.limits.max_qp_rd_atom, device_.limits.max_qp_init_rd_atom, 255}));
}

nlohmann::json End::renew() {
  queue_pair_.reset();
  while (ibv_poll_cq(completions_.get(), kPolledAtOnce, polled_.data()) > 0) {
  }
  local_.poison(0, kArenaBytes);
  received_.poison(0, kArenaBytes);
  ibv_qp_init_attr initial{};
  initial.send_cq = initial.recv_cq = completions_.get();
  initial.qp_type = IBV_QPT_RC;
  initial.cap = {.max_send_wr = kDepthMax,
                 .max_recv_wr = kDepthMax,
                 .max_send_sge = kSegmentsMax,
                 .max_recv_sge = kSegmentsMax,
                 .max_inline_data = kInlineWanted};
  queue_pair_.reset(ibv_create_qp(domain_.get(), &initial));
  if (!queue_pair_) throw client::failed("ibv_create_qp", errno);
  inline_max_ = std::min(initial.cap.max_inline_data, kInlineWanted);
  return {{"queue_pair", queue_pair_->qp_num}, {"gid", std::to_array(device_.gid.raw)},
          {"target", target_.address()},       {"key", target_.region().rkey},
          {"read_depth", read_depth_max()},    {"inline", inline_max_},
          {"local", options_.local_requests},  {"windows", has_windows()}};
}

void End::modify(ibv_qp_attr attributes, int mask, const char* to_state) {
  if (const int error = ibv_modify_qp(queue_pair_.get(), &attributes, mask)) {
    throw client::failed(fmt::format("ibv_modify_qp to {}", to_state), error);
  }
}

void End::connect(const nlohmann::json& peer, const Connecting& connecting) {
  device_.wait_until_active();
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.port_num = device_.port;
  attributes.qp_access_flags = kRemote | IBV_ACCESS_REMOTE_ATOMIC;
  modify(attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, "INIT");
  attributes = {};
  attributes.qp_state = IBV_QPS_RTR;
  attributes.path_mtu = client::path_mtu_of(options_.path_mtu).value_or(IBV_MTU_1024);
  attributes.dest_qp_num = peer.at("queue_pair").get<uint32_t>();
  attributes.rq_psn = connecting.peer_psn;
  attributes.max_dest_rd_atomic = connecting.read_depth;
  attributes.min_rnr_timer = 12;  // 0.64 ms
  attributes.ah_attr.port_num = device_.port;
  attributes.ah_attr.is_global = 1;
  std::ranges::copy(peer.at("gid").get<std::array<uint8_t, 16>>(), attributes.ah_attr.grh.dgid.raw);
  attributes.ah_attr.grh.sgid_index = static_cast<uint8_t>(device_.gid_index);
  attributes.ah_attr.grh.hop_limit = 64;
  modify(attributes,
         IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
             IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
         "RTR");
  attributes.qp_state = IBV_QPS_RTS;
  attributes.sq_psn = connecting.own_psn;
  attributes.timeout = options_.ack_timeout;
  attributes.retry_cnt = 7;
  attributes.rnr_retry = 7;
  attributes.max_rd_atomic = connecting.read_depth;
  modify(attributes,
         IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
             IBV_QP_MAX_QP_RD_ATOMIC,
         "RTS");
}

void End::post_send(ibv_send_wr& first) {
  ibv_send_wr* bad = nullptr;
  const int error = ibv_post_send(queue_pair_.get(), &first, &bad);
  if (error != 0) throw Wrong(fmt::format("ibv_post_send: {}", std::strerror(error)));
}

void End::post_receive(ibv_recv_wr& first) {
  ibv_recv_wr* bad = nullptr;
  const int error = ibv_post_recv(queue_pair_.get(), &first, &bad);
  if (error != 0) throw Wrong(fmt::format("ibv_post_recv: {}", std::strerror(error)));
}

std::span<const ibv_wc> End::poll() {
  const int count = ibv_poll_cq(completions_.get(), kPolledAtOnce, polled_.data());
  if (count < 0) throw Wrong("ibv_poll_cq fails");
  const std::span<const ibv_wc> come(polled_.data(), static_cast<size_t>(count));
  for (const ibv_wc& completion : come) {
    if (completion.status == IBV_WC_SUCCESS) continue;
    const std::string what = fmt::format("a completion of request {:#x} with '{}'", completion.wr_id,
                                         ibv_wc_status_str(completion.status));
    if (completion.status == IBV_WC_RETRY_EXC_ERR) throw Stall(what);
    throw Wrong(what);
  }
  return come;
}

}  // namespace uroce::judge
