// A connection's beginning and end.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "nvmf/rdma_queue.h"

namespace uroce::nvmf {
namespace {

/// More slots than the host may have commands: a slot is free again only when its completion is known to have
/// arrived, and then the host may already have sent the next command.
constexpr uint32_t kSlotsBeyondEntries = 32;
/// For each slot a WRITE and a SEND.
constexpr uint32_t kSendsOfSlot = 2;

// Bits of the field SGLS of Identify Controller (NVMe 1.4, figure 247; NVMe-oF 1.1, section 5).
constexpr uint32_t kSglSupported = 1;
constexpr uint32_t kSglKeyed = 1u << 2;
constexpr uint32_t kSglLonger = 1u << 18;
constexpr uint32_t kSglOffset = 1u << 20;

TransportFacts facts_of(const RdmaOptions& options) {
  TransportFacts facts;
  facts.data_bytes_max = options.data_bytes_max;
  facts.in_capsule_bytes = options.in_capsule_bytes;
  facts.io_entries_max = options.io_entries_max;
  facts.sgls = kSglSupported | kSglKeyed | kSglLonger | (options.in_capsule_bytes != 0 ? kSglOffset : 0);
  return facts;
}

}  // namespace

Result<std::unique_ptr<RdmaQueue>> RdmaQueue::make(RdmaShare& share, rdma_cm_id& id, const Setup& setup,
                                                   const RdmaOptions& options) {
  std::unique_ptr<RdmaQueue> queue(new RdmaQueue(share, id, setup));
  queue->facts_ = facts_of(options);
  if (share.shared_receives() == nullptr) {
    auto receives =
        RdmaReceives::allocate(share.device().domain(), queue->entries_, options.in_capsule_bytes);
    if (!receives) return receives.error();
    queue->own_receives_ = std::move(*receives);
  }
  queue->data_memory_ = {share.buffers().bytes(), queue->receives().bytes()};
  if (const Status status = queue->make_slots(); !status) return status.error();
  if (const Status status = queue->make_queue_pair(); !status) return status.error();
  if (queue->own_receives_ && !queue->own_receives_->first_post(*id.qp))
    return Error{EIO, "the queue pair refused receive buffers"};
  return queue;
}

Status RdmaQueue::make_slots() {
  const uint32_t count = entries_ + kSlotsBeyondEntries;
  auto memory = RdmaMemory::allocate(share_.device().domain(), count * sizeof(Completion));
  if (!memory) return memory.error();
  completions_ = std::move(*memory);
  auto* const completions = reinterpret_cast<Completion*>(completions_->bytes().data());
  slots_ = std::vector<RdmaSlot>(count);
  for (uint32_t i = 0; i < count; ++i) {
    slots_[i].request.user = &slots_[i];
    slots_[i].queue = this;
    slots_[i].sent = &completions[i];
    free_.push(slots_[i]);
  }
  return {};
}

Status RdmaQueue::make_queue_pair() {
  const auto device_max = static_cast<uint32_t>(share_.device().attributes().max_qp_wr);
  // One more for the last work request of all, by which the end is seen.
  send_entries_ = std::min(kSendsOfSlot * static_cast<uint32_t>(slots_.size()), device_max - 1);
  const uint32_t receives = own_receives_ ? entries_ : 0;
  if (!share_.reserve(send_entries_ + 1 + receives)) return Error{ENOMEM, "no room in the completion queue"};
  reserved_completions_ = send_entries_ + 1 + receives;
  ibv_qp_init_attr wanted{};
  wanted.qp_context = this;
  wanted.send_cq = wanted.recv_cq = &share_.completions();
  wanted.srq = share_.shared_receives();
  wanted.qp_type = IBV_QPT_RC;
  wanted.cap = {.max_send_wr = send_entries_ + 1,
                .max_recv_wr = receives,
                .max_send_sge = 1,
                .max_recv_sge = 2,
                .max_inline_data = 0};
  if (rdma_create_qp(&id_, &share_.device().domain(), &wanted) != 0)
    return Error{errno, std::string("no queue pair: ") + std::strerror(errno)};
  return {};
}

RdmaQueue::~RdmaQueue() {
  if (id_.qp != nullptr) rdma_destroy_qp(&id_);
  share_.unreserve(reserved_completions_);
}

void RdmaQueue::broken(bool connected, Instant now) {
  if (broken_) return;
  broken_ = true;
  // A queue pair that never left INIT has taken nothing, and some devices do not say so.
  last_receive_ = last_receive_ || !connected;
  if (own_receives_) own_receives_->end();
  while (RdmaCapsule* capsule = waits_for_slot_.pop()) receives().give_back(*capsule);
  share_.buffers().forget(*this);
  ibv_send_wr last{};
  last.wr_id = work_id(*this, RdmaWork::kDrain);
  last.opcode = IBV_WR_SEND;
  last.send_flags = IBV_SEND_SIGNALED;
  ibv_send_wr* bad = nullptr;
  // A device that refuses it is gone, and so is all that it did.
  if (ibv_post_send(id_.qp, &last, &bad) != 0) sends_drained_ = last_receive_ = true;
  target_queue_->disconnected(now);
}

bool RdmaQueue::try_retire() {
  if (!broken_ || !sends_drained_) return false;
  if (own_receives_ ? own_receives_->posted() != 0 : !last_receive_) return false;
  // The first time the completion queue may have been polled just before the last of these was told.
  if (!share_.is_empty() || !std::exchange(at_rest_, true)) return false;
  drop_what_is_ours();
  if (!target_queue_->drained()) return false;
  target_queue_.reset();
  share_.remove(queue_pair_number());
  return true;
}

/// The queue pair touches no memory any more: what is not in the target's hands can go.
void RdmaQueue::drop_what_is_ours() {
  for (RdmaSlot& slot : slots_) {
    if (slot.state == RdmaSlotState::kFree || slot.state == RdmaSlotState::kExecuting) continue;
    return_capsule(slot);
    free(slot);
  }
  waits_for_read_ = {};
  waits_for_send_ = {};
  sending_ = {};
}

}  // namespace uroce::nvmf
