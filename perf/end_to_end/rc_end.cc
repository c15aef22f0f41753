#include "perf/end_to_end/rc_end.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "client/failure.h"

namespace uroce::perf {
namespace {

constexpr size_t kPage = 4096;
constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;

void check(int error, const char* what) {
  if (error != 0) throw client::failed(what, error);
}

template <typename Owner, typename Object>
void own(Owner& owner, Object* object, const char* what) {
  if (object == nullptr) throw client::failed(what, errno);
  owner.reset(object);
}

ibv_wr_opcode opcode_of(Operation operation) {
  return operation == Operation::kWrite  ? IBV_WR_RDMA_WRITE
         : operation == Operation::kRead ? IBV_WR_RDMA_READ
                                         : IBV_WR_SEND;
}

/// The one of the device, and if `all` those behind it.
std::vector<ibv_gid> gids_of(const client::VerbsDevice& device, bool all) {
  std::vector<ibv_gid> gids = {device.gid};
  ibv_gid gid{};
  for (uint32_t index = device.gid_index + 1; all && index <= UINT8_MAX; ++index) {
    if (ibv_query_gid(device.context.get(), device.port, static_cast<int>(index), &gid) != 0) break;
    if (gid.global.interface_id == 0) break;
    gids.push_back(gid);
  }
  return gids;
}

}  // namespace

RcEnd::RcEnd(const std::string& device, const Traffic& traffic, Part part, bool crossed)
    : traffic_(traffic),
      part_(part),
      device_(client::VerbsDevice::open({.name = device})),
      gids_(gids_of(device_, traffic.all_addresses)),
      sends_(traffic.batch),
      receives_(traffic.batch),
      segments_(traffic.batch) {
  if (traffic.targets() == 0) throw client::Failure("the region is too small for a batch of messages");
  const uint64_t bytes = source_bytes() + (part == Part::kSources ? 0 : traffic.region_bytes);
  own(memory_, static_cast<std::byte*>(std::aligned_alloc(kPage, (bytes + kPage - 1) / kPage * kPage)),
      "memory");
  own(domain_, ibv_alloc_pd(device_.context.get()), "ibv_alloc_pd");
  own(region_, ibv_reg_mr(domain_.get(), memory_.get(), bytes, kAccess), "ibv_reg_mr");
  own(completions_,
      ibv_create_cq(device_.context.get(), static_cast<int>(3 * traffic.outstanding), nullptr, nullptr, 0),
      "ibv_create_cq");
  if (crossed) occupy_first_poller();
  make_queue_pairs();
  place_ = {.sources = reinterpret_cast<uint64_t>(memory_.get()),
            .targets = reinterpret_cast<uint64_t>(targets()),
            .key = region_->rkey,
            .gid = device_.gid};
  for (uint32_t i = 0; i < traffic.batch; ++i) {
    const bool last = i + 1 == traffic.batch;
    segments_[i] = {.addr = 0, .length = traffic.size, .lkey = region_->lkey};
    sends_[i].next = last ? nullptr : &sends_[i + 1];
    sends_[i].sg_list = &segments_[i];
    sends_[i].num_sge = 1;
    sends_[i].opcode = opcode_of(traffic.operation);
    sends_[i].send_flags = last ? IBV_SEND_SIGNALED : 0;
    receives_[i].next = last ? nullptr : &receives_[i + 1];
    receives_[i].sg_list = &segments_[i];
    receives_[i].num_sge = 1;
  }
}

/// The queue pairs that come then are given to another one.
void RcEnd::occupy_first_poller() {
  own(idle_completions_, ibv_create_cq(device_.context.get(), 1, nullptr, nullptr, 0), "ibv_create_cq");
  ibv_qp_init_attr initial{};
  initial.send_cq = initial.recv_cq = idle_completions_.get();
  initial.qp_type = IBV_QPT_RC;
  initial.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1};
  own(idle_, ibv_create_qp(domain_.get(), &initial), "ibv_create_qp");
}

void RcEnd::make_queue_pairs() {
  if (traffic_.operation == Operation::kSend && traffic_.queue_pairs > 1)
    throw client::Failure("SEND is measured on one queue pair");
  ibv_qp_init_attr initial{};
  initial.send_cq = initial.recv_cq = completions_.get();
  initial.qp_type = IBV_QPT_RC;
  // Of each queue pair four times its share, as a program would ask for: rings for all that is under way
  // would not stay in a cache when the queue pairs are many.
  const uint32_t share = std::max(traffic_.batch, traffic_.outstanding / traffic_.queue_pairs);
  const uint32_t depth = traffic_.depth != 0 ? traffic_.depth : std::min(traffic_.outstanding, 4 * share);
  initial.cap = {.max_send_wr = depth,
                 .max_recv_wr = traffic_.operation == Operation::kSend ? 2 * traffic_.outstanding : 1,
                 .max_send_sge = 1,
                 .max_recv_sge = 1,
                 .max_inline_data = 0};
  if (traffic_.no_queues) initial.cap = {};
  batches_max_ = depth / traffic_.batch;
  under_way_.resize(traffic_.queue_pairs);
  for (uint32_t i = 0; i < traffic_.queue_pairs; ++i)
    own(queue_pairs_.emplace_back(), ibv_create_qp(domain_.get(), &initial), "ibv_create_qp");
}

void RcEnd::modify(ibv_qp& queue_pair, ibv_qp_attr attributes, int mask) {
  check(ibv_modify_qp(&queue_pair, &attributes, mask), "ibv_modify_qp");
}

std::vector<uint32_t> RcEnd::numbers() const {
  std::vector<uint32_t> numbers;
  for (const client::QueuePair& queue_pair : queue_pairs_) numbers.push_back(queue_pair->qp_num);
  return numbers;
}

void RcEnd::connect(const RcPlace& peer, std::span<const uint32_t> numbers) {
  device_.wait_until_active();
  for (size_t i = 0; i < queue_pairs_.size(); ++i)
    connect(*queue_pairs_[i], {static_cast<uint8_t>(device_.gid_index), peer.gid}, numbers[i]);
}

void RcEnd::connect(const RcEnd& peer) {
  device_.wait_until_active();
  const std::vector<uint32_t> numbers = peer.numbers();
  for (size_t i = 0; i < queue_pairs_.size(); ++i)
    connect(*queue_pairs_[i],
            {static_cast<uint8_t>(device_.gid_index + i % gids_.size()), peer.gids_[i % peer.gids_.size()]},
            numbers[i]);
}

void RcEnd::connect(ibv_qp& queue_pair, const Path& path, uint32_t peers_number) const {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.port_num = device_.port;
  attributes.qp_access_flags = static_cast<unsigned>(kAccess);
  modify(queue_pair, attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);

  const uint8_t reads = traffic_.operation == Operation::kRead ? 16 : 1;
  attributes.qp_state = IBV_QPS_RTR;
  attributes.path_mtu = client::path_mtu_of(static_cast<uint32_t>(traffic_.mtu)).value_or(IBV_MTU_4096);
  attributes.dest_qp_num = peers_number;
  attributes.max_dest_rd_atomic = reads;
  attributes.min_rnr_timer = 1;
  attributes.ah_attr.port_num = device_.port;
  attributes.ah_attr.is_global = 1;
  attributes.ah_attr.grh.dgid = path.peers;
  attributes.ah_attr.grh.sgid_index = path.ours;
  attributes.ah_attr.grh.hop_limit = 64;
  modify(queue_pair, attributes,
         IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
             IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);

  attributes.qp_state = IBV_QPS_RTS;
  attributes.timeout = 18;  // a second: nothing is lost, but an end may wait for a CPU
  attributes.retry_cnt = 7;
  attributes.rnr_retry = 7;
  attributes.max_rd_atomic = reads;
  modify(queue_pair, attributes,
         IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
             IBV_QP_MAX_QP_RD_ATOMIC);
}

uint64_t RcEnd::next_targets() {
  const uint64_t offset = targets_offset_;
  targets_offset_ += traffic_.batch * traffic_.stride();
  if (targets_offset_ == traffic_.targets() * traffic_.stride()) targets_offset_ = 0;
  return offset;
}

void RcEnd::post(const RcPlace& peer) {
  const uint64_t stride = traffic_.stride();
  const bool read = traffic_.operation == Operation::kRead;
  const uint64_t sources = (read ? peer : place_).sources + sources_offset_;
  const uint64_t targets = (read ? place_ : peer).targets + next_targets();
  sources_offset_ += traffic_.batch * stride;
  if (sources_offset_ == traffic_.sources() * stride) sources_offset_ = 0;
  for (uint32_t i = 0; i < traffic_.batch; ++i) {
    segments_[i].addr = (read ? targets : sources) + i * stride;
    sends_[i].wr.rdma.remote_addr = (read ? sources : targets) + i * stride;
    sends_[i].wr.rdma.rkey = peer.key;
  }
  sends_.back().wr_id = next_queue_pair_;
  ++under_way_[next_queue_pair_];
  ibv_send_wr* bad = nullptr;
  check(ibv_post_send(queue_pairs_[next_queue_pair_].get(), sends_.data(), &bad), "ibv_post_send");
  next_queue_pair_ = queue_pair_after(next_queue_pair_);
}

size_t RcEnd::queue_pair_after(size_t queue_pair) {
  if (traffic_.random_order && all_used_) return random_.below(queue_pairs_.size());
  if (queue_pair + 1 < queue_pairs_.size()) return queue_pair + 1;
  all_used_ = true;
  return 0;
}

void RcEnd::post_receives() {
  const uint64_t targets = reinterpret_cast<uint64_t>(this->targets()) + next_targets();
  for (uint32_t i = 0; i < traffic_.batch; ++i) segments_[i].addr = targets + i * traffic_.stride();
  ibv_recv_wr* bad = nullptr;
  check(ibv_post_recv(queue_pairs_.front().get(), receives_.data(), &bad), "ibv_post_recv");
}

RcEnd::Found RcEnd::poll() {
  std::array<ibv_wc, 16> completions;
  const int count = ibv_poll_cq(completions_.get(), static_cast<int>(completions.size()), completions.data());
  if (count < 0) throw client::Failure("ibv_poll_cq client::failed");
  Found found;
  for (const ibv_wc& completion : std::span(completions).first(static_cast<size_t>(count))) {
    if (completion.status != IBV_WC_SUCCESS)
      throw client::Failure(
          fmt::format("{}: {}", name_of(traffic_.operation), ibv_wc_status_str(completion.status)));
    if ((completion.opcode & IBV_WC_RECV) != 0) {
      ++found.received;
      continue;
    }
    found.completed += traffic_.batch;
    --under_way_[completion.wr_id];
  }
  return found;
}

}  // namespace uroce::perf
