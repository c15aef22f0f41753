#include "nvmf_host/rdma_host.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "base/values/internet_address.h"

namespace uroce::nvmf_host {
namespace {

constexpr int kResolveMs = 30'000;
constexpr int kHopelessMs = 60'000;
constexpr uint64_t kSendId = uint64_t{1} << 32;
constexpr uint64_t kBindId = uint64_t{1} << 33;

void must(bool good, const char* what) {
  if (!good) throw std::system_error(errno, std::generic_category(), what);
}

sockaddr_storage address_of(const std::string& text, uint16_t port) {
  const auto address = internet_address(text, port);
  if (!address) throw std::invalid_argument(text);
  return *address;
}

std::vector<std::byte> private_data_of(const RdmaHostQueue::Options& options) {
  if (options.private_data) return *options.private_data;
  nvmf::RdmaRequestData data{};
  data.qid = options.qid;
  data.host_receive_size = static_cast<uint16_t>(options.entries);
  data.host_send_size = static_cast<uint16_t>(options.entries - 1);
  const auto* bytes = reinterpret_cast<const std::byte*>(&data);
  return {bytes, bytes + sizeof(data)};
}

}  // namespace

RdmaHostQueue::RdmaHostQueue(const Options& options)
    : options_(options), channel_(rdma_create_event_channel()) {
  must(channel_ != nullptr, "rdma_create_event_channel");
  try {
    resolve();
    make_queue_pair();
    connect();
  } catch (...) {
    release();
    throw;
  }
}

RdmaHostQueue::~RdmaHostQueue() { release(); }

void RdmaHostQueue::release() {
  if (id_ != nullptr) {
    if (id_->qp != nullptr) {
      rdma_disconnect(id_);
      rdma_destroy_qp(id_);
    }
  }
  for (ibv_mw* window : windows_) ibv_dealloc_mw(window);
  fast_regions_.reset();
  if (region_ != nullptr) ibv_dereg_mr(region_);
  if (queue_ != nullptr) ibv_destroy_cq(queue_);
  if (domain_ != nullptr) ibv_dealloc_pd(domain_);
  if (id_ != nullptr) rdma_destroy_id(id_);
  if (mapped_ != nullptr) munmap(mapped_, mapped_bytes_);
}

void RdmaHostQueue::resolve() {
  must(rdma_create_id(channel_.get(), &id_, nullptr, RDMA_PS_TCP) == 0, "rdma_create_id");
  sockaddr_storage own = address_of(options_.own_address, 0);
  sockaddr_storage target = address_of(options_.target_address, options_.port);
  must(rdma_resolve_addr(id_, reinterpret_cast<sockaddr*>(&own), reinterpret_cast<sockaddr*>(&target),
                         kResolveMs) == 0,
       "rdma_resolve_addr");
  expect(RDMA_CM_EVENT_ADDR_RESOLVED);
  if (options_.ack_timeout) {
    uint8_t timeout = *options_.ack_timeout;
    must(rdma_set_option(id_, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout, sizeof(timeout)) == 0,
         "RDMA_OPTION_ID_ACK_TIMEOUT");
  }
  must(rdma_resolve_route(id_, kResolveMs) == 0, "rdma_resolve_route");
  expect(RDMA_CM_EVENT_ROUTE_RESOLVED);
}

void RdmaHostQueue::map_memory() {
  const uint32_t slots = options_.entries;
  const size_t capsule_bytes = sizeof(nvmf::Command) + options_.in_capsule_bytes;
  const size_t data_at = (slots * (capsule_bytes + sizeof(nvmf::Completion)) + 4095) / 4096 * 4096;
  mapped_bytes_ = data_at + size_t{slots} * options_.slot_bytes;
  void* mapped = mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  must(mapped != MAP_FAILED, "mmap");
  mapped_ = static_cast<std::byte*>(mapped);
  capsules_ = mapped_;
  completions_ = mapped_ + slots * capsule_bytes;
  data_ = mapped_ + data_at;
}

void RdmaHostQueue::make_queue_pair() {
  map_memory();
  const uint32_t slots = options_.entries;
  domain_ = ibv_alloc_pd(id_->verbs);
  must(domain_ != nullptr, "ibv_alloc_pd");
  constexpr int kAccess =
      int{IBV_ACCESS_LOCAL_WRITE} | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_MW_BIND;
  region_ = ibv_reg_mr(domain_, mapped_, mapped_bytes_, kAccess);
  must(region_ != nullptr, "ibv_reg_mr");
  if (options_.fast_registration)
    fast_regions_.emplace(*domain_, std::span(data_, size_t{slots} * options_.slot_bytes),
                          options_.slot_bytes);
  // Of each slot: its capsule, a window that is bound, a region that is invalidated and registered.
  const uint32_t requests = slots * (fast_regions_ ? 4 : 2);
  queue_ = ibv_create_cq(id_->verbs, static_cast<int>(requests + slots + 1), nullptr, nullptr, 0);
  must(queue_ != nullptr, "ibv_create_cq");
  ibv_qp_init_attr wanted{};
  wanted.send_cq = wanted.recv_cq = queue_;
  wanted.qp_type = IBV_QPT_RC;
  wanted.cap = {.max_send_wr = requests,
                .max_recv_wr = slots,
                .max_send_sge = 2,
                .max_recv_sge = 1,
                .max_inline_data = 0};
  must(rdma_create_qp(id_, domain_, &wanted) == 0, "rdma_create_qp");
  sends_.resize(slots);
  receives_.resize(slots);
  send_segments_.resize(slots);
  receive_segments_.resize(slots);
  positions_.resize(slots);
  for (size_t i = 0; i < slots; ++i) add_receive(i);
  post_receives();
}

void RdmaHostQueue::add_receive(size_t index) {
  if (receives_left_ == 0) return;
  --receives_left_;
  const size_t at = receives_ready_++;
  receive_segments_[at] = {reinterpret_cast<uintptr_t>(completions_ + index * sizeof(nvmf::Completion)),
                           sizeof(nvmf::Completion), region_->lkey};
  receives_[at] = {.wr_id = index, .next = nullptr, .sg_list = &receive_segments_[at], .num_sge = 1};
  if (at > 0) receives_[at - 1].next = &receives_[at];
}

void RdmaHostQueue::post_receives() {
  if (std::exchange(receives_ready_, 0) == 0) return;
  ibv_recv_wr* bad = nullptr;
  if (ibv_post_recv(id_->qp, receives_.data(), &bad) != 0) ended_ = true;
}

void RdmaHostQueue::connect() {
  const std::vector<std::byte> data = private_data_of(options_);
  rdma_conn_param param{};
  param.private_data = data.data();
  param.private_data_len = static_cast<uint8_t>(data.size());
  param.responder_resources = options_.reads_answered;
  param.retry_count = 7;
  param.rnr_retry_count = 7;
  must(rdma_connect(id_, &param) == 0, "rdma_connect");
  expect(RDMA_CM_EVENT_ESTABLISHED);
  must(fcntl(channel_->fd, F_SETFL, fcntl(channel_->fd, F_GETFL) | O_NONBLOCK) == 0, "fcntl");
}

void RdmaHostQueue::expect(rdma_cm_event_type type) {
  pollfd waiting{.fd = channel_->fd, .events = POLLIN, .revents = 0};
  if (::poll(&waiting, 1, kHopelessMs) != 1)
    throw std::runtime_error(std::string("no ") + rdma_event_str(type));
  rdma_cm_event* event = nullptr;
  must(rdma_get_cm_event(channel_.get(), &event) == 0, "rdma_get_cm_event");
  const rdma_cm_event_type came = event->event;
  const int status = event->status;
  const auto* bytes = static_cast<const std::byte*>(event->param.conn.private_data);
  std::optional<uint16_t> nvme_status;
  if (came == RDMA_CM_EVENT_REJECTED && event->param.conn.private_data_len >= sizeof(nvmf::RdmaRejectData)) {
    nvmf::RdmaRejectData data{};
    std::memcpy(&data, bytes, sizeof(data));
    nvme_status = data.status;
  }
  if (came == RDMA_CM_EVENT_ESTABLISHED &&
      event->param.conn.private_data_len >= sizeof(nvmf::RdmaAcceptData)) {
    nvmf::RdmaAcceptData data{};
    std::memcpy(&data, bytes, sizeof(data));
    controller_receive_size_ = data.controller_receive_size;
  }
  rdma_ack_cm_event(event);
  if (came == RDMA_CM_EVENT_REJECTED) throw RdmaRefused(status, nvme_status);
  if (came != type)
    throw std::runtime_error(std::string(rdma_event_str(came)) + ", not " + rdma_event_str(type));
}

std::span<std::byte> RdmaHostQueue::memory(uint16_t cid) const {
  return {data_ + size_t{cid} * options_.slot_bytes, options_.slot_bytes};
}

nvmf::SglDescriptor RdmaHostQueue::keyed(uint64_t address, uint32_t bytes, uint32_t key, bool invalidate) {
  nvmf::SglDescriptor sgl{};
  sgl.address = address;
  for (size_t i = 0; i < 3; ++i) sgl.specific[i] = static_cast<uint8_t>(bytes >> (8 * i));
  for (size_t i = 0; i < 4; ++i) sgl.specific[3 + i] = static_cast<uint8_t>(key >> (8 * i));
  sgl.type_byte = invalidate ? 0x4F : 0x40;
  return sgl;
}

nvmf::SglDescriptor RdmaHostQueue::in_capsule(uint32_t bytes, uint64_t offset) {
  nvmf::SglDescriptor sgl = keyed(offset, bytes, 0);
  sgl.type_byte = 0x01;
  return sgl;
}

nvmf::SglDescriptor RdmaHostQueue::host_memory(uint16_t cid, uint32_t bytes) const {
  return keyed(reinterpret_cast<uintptr_t>(memory(cid).data()), bytes, region_->rkey);
}

nvmf::SglDescriptor RdmaHostQueue::registered_memory(uint16_t cid, uint32_t bytes) {
  const uint32_t key = fast_regions_.value().renew(cid, bytes);
  return keyed(reinterpret_cast<uintptr_t>(memory(cid).data()), bytes, key, true);
}

void RdmaHostQueue::send(const nvmf::Command& command, std::span<const std::byte> data) {
  std::ranges::copy(data, capsule(command.cid) + sizeof(command));
  std::memcpy(capsule(command.cid), &command, sizeof(command));
  send_capsule(command.cid, sizeof(command) + data.size());
}

void RdmaHostQueue::send(std::span<const nvmf::Command* const> commands, uint32_t data_bytes) {
  for (size_t i = 0; i < commands.size(); ++i) {
    const uint16_t cid = commands[i]->cid;
    std::memcpy(capsule(cid), commands[i], sizeof(nvmf::Command));
    chain_capsule(cid, sizeof(nvmf::Command), i);
    if (data_bytes == 0) continue;
    send_segments_[i][1] = {reinterpret_cast<uintptr_t>(memory(cid).data()), data_bytes, region_->lkey};
    sends_[i].num_sge = 2;
  }
  post_sends(commands.size());
}

void RdmaHostQueue::send_bytes(uint16_t slot, std::span<const std::byte> bytes) {
  std::ranges::copy(bytes, capsule(slot));
  send_capsule(slot, bytes.size());
}

void RdmaHostQueue::send_capsule(uint16_t slot, size_t bytes) {
  chain_capsule(slot, bytes, 0);
  post_sends(1);
}

void RdmaHostQueue::chain_capsule(uint16_t slot, size_t bytes, size_t at) {
  send_segments_[at][0] = {reinterpret_cast<uintptr_t>(capsule(slot)), static_cast<uint32_t>(bytes),
                           region_->lkey};
  ibv_send_wr& request = sends_[at];
  request = {};
  request.wr_id = kSendId | slot;
  request.sg_list = send_segments_[at].data();
  request.num_sge = 1;
  request.opcode = IBV_WR_SEND;
  ibv_send_wr* first = fast_regions_ ? fast_regions_->prepend(slot, &request) : &request;
  (at > 0 ? sends_[at - 1].next : first_send_) = first;
  positions_[slot] = ++posted_;
}

void RdmaHostQueue::post_sends(size_t count) {
  if (count == 0) return;
  sends_[count - 1].send_flags = IBV_SEND_SIGNALED;
  ibv_send_wr* bad = nullptr;
  if (ibv_post_send(id_->qp, first_send_, &bad) != 0) ended_ = true;
}

size_t RdmaHostQueue::poll(std::span<nvmf::Completion> completions) {
  std::array<ibv_wc, 32> work;
  const int wanted = static_cast<int>(std::min(work.size(), completions.size()));
  const int got = ibv_poll_cq(queue_, wanted, work.data());
  size_t count = 0;
  for (int i = 0; i < got; ++i) handle_completion(work[static_cast<size_t>(i)], completions, count);
  post_receives();
  return count;
}

void RdmaHostQueue::handle_completion(const ibv_wc& completion, std::span<nvmf::Completion> to,
                                      size_t& count) {
  if (completion.status != IBV_WC_SUCCESS) {
    ended_ = true;
    return;
  }
  if ((completion.wr_id & kBindId) != 0) ++binds_done_;
  if ((completion.wr_id & kSendId) != 0)
    acknowledged_ = std::max(acknowledged_, positions_[completion.wr_id & ~kSendId]);
  if ((completion.wr_id & (kBindId | kSendId)) != 0) return;
  nvmf::Completion& response = to[count++];
  std::memcpy(&response, completions_ + completion.wr_id * sizeof(response), sizeof(response));
  if ((completion.wc_flags & IBV_WC_WITH_INV) != 0) {
    if (fast_regions_) {
      fast_regions_->note_invalidated(response.cid, completion.invalidated_rkey);
    } else {
      invalidated_.push_back(completion.invalidated_rkey);
    }
  }
  add_receive(completion.wr_id);
}

std::optional<nvmf::Completion> RdmaHostQueue::run(const nvmf::Command& command,
                                                   std::span<const std::byte> data) {
  send(command, data);
  std::array<nvmf::Completion, 1> came;
  while (!has_ended()) {
    if (poll(came) == 1 && came[0].cid == command.cid) return came[0];
    sched_yield();
  }
  // What was on the way when it ended.
  while (poll(came) == 1) {
    if (came[0].cid == command.cid) return came[0];
  }
  return std::nullopt;
}

uint32_t RdmaHostQueue::bind_window(uint16_t cid, uint32_t bytes) {
  ibv_mw* window = ibv_alloc_mw(domain_, IBV_MW_TYPE_2);
  must(window != nullptr, "ibv_alloc_mw");
  windows_.push_back(window);
  ibv_send_wr request{};
  request.wr_id = kBindId;
  request.opcode = IBV_WR_BIND_MW;
  request.send_flags = IBV_SEND_SIGNALED;
  request.bind_mw.mw = window;
  request.bind_mw.rkey = ibv_inc_rkey(window->rkey);
  request.bind_mw.bind_info = {.mr = region_,
                               .addr = reinterpret_cast<uintptr_t>(memory(cid).data()),
                               .length = bytes,
                               .mw_access_flags = int{IBV_ACCESS_REMOTE_READ} | IBV_ACCESS_REMOTE_WRITE};
  ibv_send_wr* bad = nullptr;
  must(ibv_post_send(id_->qp, &request, &bad) == 0, "bind");
  std::array<nvmf::Completion, 1> none;
  for (const uint32_t before = binds_done_; binds_done_ == before && !ended_;) poll(none);
  return request.bind_mw.rkey;
}

void RdmaHostQueue::disconnect() { rdma_disconnect(id_); }

bool RdmaHostQueue::has_ended() {
  rdma_cm_event* event = nullptr;
  while (rdma_get_cm_event(channel_.get(), &event) == 0) {
    ended_ |= event->event == RDMA_CM_EVENT_DISCONNECTED;
    rdma_ack_cm_event(event);
  }
  return ended_;
}

}  // namespace uroce::nvmf_host
