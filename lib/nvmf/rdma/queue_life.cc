// A connection's beginning and end.
//
// Decision: a queue has one owner, and is named by a number that is never used again. A message about an
// unknown number is dropped; pointers in two threads would lead a stale report to freed memory. Cost: one
// more round of messages when a connection ends (some 10 us).
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "nvmf/rdma/queue.h"

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

TransportCapabilities facts_of(const RdmaOptions& options) {
  TransportCapabilities facts;
  facts.data_bytes_max = options.data_bytes_max;
  facts.in_capsule_bytes = options.in_capsule_bytes;
  facts.io_entries_max = options.io_entries_max;
  facts.sgls = kSglSupported | kSglKeyed | kSglLonger | (options.in_capsule_bytes != 0 ? kSglOffset : 0);
  return facts;
}

}  // namespace

RdmaQueue::RdmaQueue(RdmaShare& share, rdma_cm_id& id, const Setup& setup, const RdmaOptions& options)
    : share_(share),
      id_(id),
      number_(setup.number),
      host_(setup.host),
      qid_(setup.request.qid),
      entries_(setup.request.entries),
      reads_max_(setup.reads_max),
      connect_max_(seconds(options.connect_s)),
      stall_max_(seconds(options.stall_s)) {}

Result<std::unique_ptr<RdmaQueue>> RdmaQueue::make(RdmaShare& share, rdma_cm_id& id, const Setup& setup,
                                                   const RdmaOptions& options) {
  std::unique_ptr<RdmaQueue> queue(new RdmaQueue(share, id, setup, options));
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
  auto memory =
      RdmaMemory::allocate(share_.device().domain(), count * sizeof(Completion), UROCEDV_DMA_TO_DEVICE);
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
  send_entries_ = std::min(kSendsOfSlot * static_cast<uint32_t>(slots_.size()), device_max);
  const uint32_t receives = own_receives_ ? entries_ : 0;
  if (!share_.reserve(send_entries_ + receives)) return Error{ENOMEM, "no room in the completion queue"};
  reserved_completions_ = send_entries_ + receives;
  ibv_qp_init_attr wanted{};
  // Events of the device come by number, too: they may be older than what they are about.
  wanted.qp_context = reinterpret_cast<void*>(number_);
  wanted.send_cq = wanted.recv_cq = &share_.completions();
  wanted.srq = share_.shared_receives();
  wanted.qp_type = IBV_QPT_RC;
  wanted.cap = {.max_send_wr = send_entries_,
                .max_recv_wr = receives,
                .max_send_sge = 1,
                .max_recv_sge = 2,
                .max_inline_data = 0};
  if (rdma_create_qp(&id_, &share_.device().domain(), &wanted) != 0)
    return Error{errno, std::string("no queue pair: ") + std::strerror(errno)};
  queue_pair_ = id_.qp;
  queue_pair_number_ = id_.qp->qp_num;
  return {};
}

RdmaQueue::~RdmaQueue() {
  if (id_.qp != nullptr) rdma_destroy_qp(&id_);
  share_.unreserve(reserved_completions_);
}

std::optional<RdmaEvent> RdmaQueue::wants_end(Instant now) const {
  if (failure_) return failure_;
  if (!target_ends_at_) return std::nullopt;
  const bool all_sent = sending_.empty() && waits_for_send_.empty();
  if (!all_sent && now - *target_ends_at_ < kLastResponsesMax) return std::nullopt;
  return RdmaEvent::kEndedByTarget;
}

void RdmaQueue::close(Instant now) {
  if (!is_serving()) return;
  phase_ = Phase::kClosing;
  closed_at_ = now;
  if (own_receives_) own_receives_->end();
  while (RdmaCapsule* capsule = waits_for_slot_.pop()) {
    --budget_->capsules;
    receives().give_back(*capsule);
  }
  share_.buffers().forget(*this);
  target_queue_->disconnected(now);
}

void RdmaQueue::detach() {
  if (phase_ != Phase::kQuiet) return;
  phase_ = Phase::kDetaching;
  mark_ = share_.mark();
}

RdmaQueue::Phase RdmaQueue::advance_end(Instant now) {
  if (phase_ == Phase::kClosing &&
      (own_receives_ != nullptr || last_receive_ || now - closed_at_ > kLastReceiveMax)) {
    phase_ = Phase::kFlushing;
    mark_ = share_.mark();
  } else if (phase_ == Phase::kFlushing && share_.is_past(mark_)) {
    // Only now: some devices forget the completions of a queue pair that is destroyed, and with them the
    // buffers of a shared receive queue.
    phase_ = Phase::kQuiet;
  } else if (phase_ == Phase::kDetaching && share_.is_past(mark_)) {
    drop_commands();
    phase_ = Phase::kDetached;
  }
  if (phase_ == Phase::kDetached && target_queue_->drained()) {
    target_queue_.reset();
    if (holds_host_budget_) share_.drop_budget(host_);
    phase_ = Phase::kRetired;
  }
  return phase_;
}

/// What is not in the target's hands goes now.
void RdmaQueue::drop_commands() {
  share_.remove(queue_pair_number_);
  for (RdmaSlot& slot : slots_) {
    if (slot.state == RdmaSlotState::kFree || slot.state == RdmaSlotState::kExecuting) continue;
    return_capsule(slot);
    free(slot);
  }
  waits_for_read_ = {};
  reads_under_way_ = {};
  waits_for_send_ = {};
  sending_ = {};
}

}  // namespace uroce::nvmf
