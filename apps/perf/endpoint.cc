#include "apps/perf/endpoint.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <random>

#include "client/failure.h"

namespace uroce::perf {
namespace {

constexpr size_t kPage = 4096;
constexpr uint32_t kQkey = 0x00C0FFEE;  // of all queue pairs of UD
constexpr uint32_t kDatagramHeader = sizeof(ibv_grh);

client::Buffer allocate(uint64_t bytes) {
  auto* memory = static_cast<std::byte*>(std::aligned_alloc(kPage, (bytes + kPage - 1) / kPage * kPage));
  if (memory == nullptr) throw client::Failure(fmt::format("no memory for a buffer of {} bytes", bytes));
  std::memset(memory, 0, bytes);
  return client::Buffer(memory);
}

int access_for(const client::VerbsDevice& device) {
  return IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
         (device.has_atomics() ? IBV_ACCESS_REMOTE_ATOMIC : 0);
}

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

ibv_qp_type type_of(Service service) {
  return service == Service::kRc ? IBV_QPT_RC : service == Service::kUc ? IBV_QPT_UC : IBV_QPT_UD;
}

uint32_t random_psn() {
  static std::random_device source;
  return source() & 0xFFFFFF;
}

}  // namespace

Endpoint::Endpoint(const client::DeviceChoice& choice, const Plan& plan)
    : device_(client::VerbsDevice::open(choice)),
      service_(plan.service),
      path_mtu_wanted_(plan.path_mtu),
      ack_timeout_(static_cast<uint8_t>(plan.ack_timeout)),
      send_depth_(plan.depth),
      receive_depth_(std::max(2 * plan.depth, 2 * kBatchMax)),
      area_bytes_(area_bytes_for(plan)),
      buffer_(allocate(2 * area_bytes_)) {
  const auto requests_max = static_cast<uint32_t>(device_.limits.max_qp_wr);
  if (send_depth_ > requests_max) {
    throw client::Failure(
        fmt::format("--depth {}: {} holds {} requests per queue", send_depth_, device_.name, requests_max));
  }
  receive_depth_ = std::min(receive_depth_, requests_max);
  domain_.reset(ibv_alloc_pd(device_.context.get()));
  if (!domain_) throw client::failed("ibv_alloc_pd on " + device_.name, errno);
  region_.reset(ibv_reg_mr(domain_.get(), buffer_.get(), 2 * area_bytes_, access_for(device_)));
  if (!region_)
    throw client::failed(fmt::format("ibv_reg_mr of {} bytes on {}", 2 * area_bytes_, device_.name), errno);
  const auto entries = static_cast<int>(send_depth_ + receive_depth_);
  completions_.reset(ibv_create_cq(device_.context.get(), entries, nullptr, nullptr, 0));
  if (!completions_)
    throw client::failed(fmt::format("ibv_create_cq of {} entries on {}", entries, device_.name), errno);
}

void Endpoint::begin_round(const Layout& layout) {
  queue_pair_.reset();
  address_.reset();
  forget_completions();
  layout_ = layout;
  path_mtu_ = 0;
  create_queue_pair();
  psn_ = random_psn();

  ibv_qp_attr init{};
  init.qp_state = IBV_QPS_INIT;
  init.port_num = device_.port;
  init.qkey = kQkey;
  init.qp_access_flags = static_cast<unsigned>(access_for(device_));
  modify(init,
         IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
             (service_ == Service::kUd ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS),
         "INIT");
}

/// A device may leave what a queue pair has completed in the queue when that is destroyed. A message that
/// came late is of no later round.
void Endpoint::forget_completions() {
  ibv_wc completion;
  while (ibv_poll_cq(completions_.get(), 1, &completion) > 0) {
  }
}

void Endpoint::create_queue_pair() {
  ibv_qp_init_attr initial{};
  initial.send_cq = initial.recv_cq = completions_.get();
  initial.qp_type = type_of(service_);
  initial.cap = {.max_send_wr = send_depth_,
                 .max_recv_wr = receive_depth_,
                 .max_send_sge = 1,
                 .max_recv_sge = 1,
                 .max_inline_data = 0};
  queue_pair_.reset(ibv_create_qp(domain_.get(), &initial));
  if (!queue_pair_) throw client::failed("ibv_create_qp on " + device_.name, errno);
}

Address Endpoint::address() const {
  return {.queue_pair = queue_pair_->qp_num,
          .psn = psn_,
          .lid = device_.port_attributes.lid,
          .gid = device_.gid,
          .path_mtu = client::bytes_of(device_.port_attributes.active_mtu),
          .reads_in_max = static_cast<uint32_t>(device_.limits.max_qp_rd_atom),
          .remote_key = region_->rkey,
          .source = reinterpret_cast<uint64_t>(buffer_.get()),
          .target = reinterpret_cast<uint64_t>(buffer_.get() + area_bytes_)};
}

void Endpoint::modify(ibv_qp_attr attributes, int mask, const char* to_state) {
  if (const int error = ibv_modify_qp(queue_pair_.get(), &attributes, mask)) {
    throw client::failed(
        fmt::format("ibv_modify_qp to {} on {}, peer {}", to_state, device_.name, client::text_of(peer_.gid)),
        error);
  }
}

void Endpoint::connect(const Address& peer) {
  peer_ = peer;
  device_.wait_until_active();
  const uint32_t carried = std::min(client::bytes_of(device_.port_attributes.active_mtu), peer.path_mtu);
  if (path_mtu_wanted_.value_or(0) > carried) {
    throw client::Failure(fmt::format("--path-mtu {}: the path from {} to {} carries {}", *path_mtu_wanted_,
                                      client::text_of(device_.gid), client::text_of(peer.gid), carried));
  }
  path_mtu_ = path_mtu_wanted_.value_or(carried);
  if (is_reliable(service_)) {
    connect_reliably(peer);
  } else {
    connect_unreliably(peer);
  }
}

ibv_ah_attr Endpoint::way_to(const Address& peer) const {
  ibv_ah_attr way{};
  way.port_num = device_.port;
  way.dlid = peer.lid;
  way.is_global = 1;
  way.grh.dgid = peer.gid;
  way.grh.sgid_index = static_cast<uint8_t>(device_.gid_index);
  way.grh.hop_limit = 64;
  return way;
}

void Endpoint::connect_reliably(const Address& peer) {
  constexpr uint32_t kReadsMax = 16;
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTR;
  attributes.path_mtu = client::path_mtu_of(path_mtu_).value_or(IBV_MTU_1024);
  attributes.dest_qp_num = peer.queue_pair;
  attributes.rq_psn = peer.psn;
  attributes.max_dest_rd_atomic =
      static_cast<uint8_t>(std::min(kReadsMax, static_cast<uint32_t>(device_.limits.max_qp_rd_atom)));
  attributes.min_rnr_timer = 12;
  attributes.ah_attr = way_to(peer);
  modify(attributes,
         IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
             IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
         "RTR");

  attributes.qp_state = IBV_QPS_RTS;
  attributes.sq_psn = psn_;
  attributes.timeout = ack_timeout_;
  attributes.retry_cnt = 7;
  attributes.rnr_retry = 7;
  attributes.max_rd_atomic =
      static_cast<uint8_t>(std::min({kReadsMax, static_cast<uint32_t>(device_.limits.max_qp_init_rd_atom),
                                     std::max(peer.reads_in_max, 1u)}));
  modify(attributes,
         IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
             IBV_QP_MAX_QP_RD_ATOMIC,
         "RTS");
}

void Endpoint::connect_unreliably(const Address& peer) {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTR;
  attributes.path_mtu = client::path_mtu_of(path_mtu_).value_or(IBV_MTU_1024);
  attributes.dest_qp_num = peer.queue_pair;
  attributes.rq_psn = peer.psn;
  attributes.sq_psn = psn_;
  attributes.ah_attr = way_to(peer);
  constexpr int kConnected = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
  modify(attributes, IBV_QP_STATE | (service_ == Service::kUc ? kConnected : 0), "RTR");
  attributes.qp_state = IBV_QPS_RTS;
  modify(attributes, IBV_QP_STATE | IBV_QP_SQ_PSN, "RTS");
  if (service_ != Service::kUd) return;
  if (layout_.size > path_mtu_) {
    throw client::Failure(
        fmt::format("--size {}: a message of UD is one packet, and the path from {} to {} carries {}",
                    layout_.size, client::text_of(device_.gid), client::text_of(peer.gid), path_mtu_));
  }
  address_.reset(ibv_create_ah(domain_.get(), &attributes.ah_attr));
  if (!address_)
    throw client::failed(fmt::format("ibv_create_ah on {}, peer {}", device_.name, client::text_of(peer.gid)),
                         errno);
}

/// UD says so in each request.
void Endpoint::aim(ibv_send_wr& request) const {
  request.wr.ud = {.ah = address_.get(), .remote_qpn = peer_.queue_pair, .remote_qkey = kQkey};
}

void Endpoint::post(Operation operation, uint64_t first, uint32_t count) {
  std::array<ibv_send_wr, kBatchMax> requests;
  std::array<ibv_sge, kBatchMax> segments;
  const bool fetches = operation == Operation::kRead || is_atomic(operation);
  const uint64_t local = reinterpret_cast<uint64_t>(buffer_.get()) + (fetches ? area_bytes_ : 0);
  const uint64_t remote = fetches ? peer_.source : peer_.target;
  last_operation_ = operation;
  for (uint32_t i = 0; i < count; ++i) {
    const uint64_t offset = layout_.offset(first + i);
    segments[i] = {
        .addr = local + offset, .length = static_cast<uint32_t>(layout_.size), .lkey = region_->lkey};
    ibv_send_wr& request = requests[i];
    request.wr_id = count;
    request.next = i + 1 < count ? &requests[i + 1] : nullptr;
    request.sg_list = &segments[i];
    request.num_sge = 1;
    request.opcode = opcode_of(service_, operation);
    if (!is_reliable(service_)) request.imm_data = htonl(static_cast<uint32_t>(first + i));
    request.send_flags = i + 1 < count ? 0 : IBV_SEND_SIGNALED;
    if (is_atomic(operation)) {
      const bool swap = operation == Operation::kCompareSwap;
      request.wr.atomic.remote_addr = remote + offset;
      request.wr.atomic.rkey = peer_.remote_key;
      request.wr.atomic.compare_add = swap ? first + i : layout_.slots;
      request.wr.atomic.swap = first + i + layout_.slots;
    } else if (service_ == Service::kUd) {
      aim(request);
    } else {
      request.wr.rdma.remote_addr = remote + offset;
      request.wr.rdma.rkey = peer_.remote_key;
    }
  }
  post_list(requests.data(), operation);
}

void Endpoint::post_number(uint64_t number) {
  ibv_send_wr request{};
  request.wr_id = 1;
  request.opcode = IBV_WR_SEND_WITH_IMM;
  request.send_flags = IBV_SEND_SIGNALED;
  request.imm_data = htonl(static_cast<uint32_t>(number));
  if (service_ == Service::kUd) aim(request);
  last_operation_ = Operation::kSend;
  post_list(&request, Operation::kSend);
}

void Endpoint::post_list(ibv_send_wr* requests, Operation operation) {
  ibv_send_wr* bad = nullptr;
  if (const int error = ibv_post_send(queue_pair_.get(), requests, &bad)) {
    throw client::failed(fmt::format("ibv_post_send of a {} of {} on {}", name_of(operation),
                                     size_text(layout_.size), device_.name),
                         error);
  }
}

void Endpoint::post_receives(uint64_t first, uint32_t count) {
  std::array<ibv_recv_wr, kBatchMax> requests;
  std::array<ibv_sge, kBatchMax> segments;
  const uint64_t local = reinterpret_cast<uint64_t>(buffer_.get()) + area_bytes_;
  const uint32_t header = service_ == Service::kUd ? kDatagramHeader : 0;
  for (uint32_t i = 0; i < count; ++i) {
    segments[i] = {.addr = local + layout_.offset(first + i) - header,
                   .length = static_cast<uint32_t>(layout_.size) + header,
                   .lkey = region_->lkey};
    requests[i] = {.wr_id = kReceiveMark,
                   .next = i + 1 < count ? &requests[i + 1] : nullptr,
                   .sg_list = &segments[i],
                   .num_sge = 1};
  }
  ibv_recv_wr* bad = nullptr;
  if (const int error = ibv_post_recv(queue_pair_.get(), requests.data(), &bad)) {
    throw client::failed("ibv_post_recv on " + device_.name, error);
  }
}

Completions Endpoint::poll() {
  std::array<ibv_wc, Completions::kMax> found;
  const int count = ibv_poll_cq(completions_.get(), static_cast<int>(found.size()), found.data());
  if (count < 0) throw client::Failure("ibv_poll_cq on " + device_.name + " client::failed");
  Completions completions;
  for (int i = 0; i < count; ++i) {
    const ibv_wc& completion = found[static_cast<size_t>(i)];
    if (completion.status != IBV_WC_SUCCESS) throw_completion(completion);
    if ((completion.wr_id & kReceiveMark) == 0) {
      completions.sent += completion.wr_id;
    } else {
      note_arrival(completion, completions);
    }
  }
  return completions;
}

void Endpoint::note_arrival(const ibv_wc& completion, Completions& completions) const {
  const uint32_t header = service_ == Service::kUd ? kDatagramHeader : 0;
  const uint32_t bytes = completion.byte_len - header;
  const bool empty = !is_reliable(service_) && bytes == 0;
  if (bytes != layout_.size && !empty)
    throw client::Failure(
        fmt::format("a message of {} arrived with {} bytes", size_text(layout_.size), bytes));
  completions.arrivals[completions.received++] = {.number = ntohl(completion.imm_data), .empty = empty};
}

void Endpoint::throw_completion(const ibv_wc& completion) const {
  const bool receive = (completion.wr_id & kReceiveMark) != 0;
  throw client::Failure(fmt::format("{} of {} on {}, peer {}: {} (status {}, vendor error {:#x})",
                                    receive ? "receive" : name_of(last_operation_), size_text(layout_.size),
                                    device_.name, client::text_of(peer_.gid),
                                    ibv_wc_status_str(completion.status), static_cast<int>(completion.status),
                                    completion.vendor_err));
}

}  // namespace uroce::perf
