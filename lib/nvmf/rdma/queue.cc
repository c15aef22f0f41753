// Commands on their way in: from the capsule to the target, with the data that belongs to them.
#include "nvmf/rdma/queue.h"

#include <cstring>

#include "base/values/contract.h"
#include "nvmf/subsystem/target.h"

namespace uroce::nvmf {
namespace {}  // namespace

void RdmaQueue::start(Target& target, Instant (*clock)()) {
  share_.add(queue_pair_number_, *this);
  target_queue_ = std::make_unique<Queue>(
      target,
      QueueOptions{
          .transport = facts_, .qid = qid_, .entries = entries_, .clock = clock, .buffers = data_memory_});
}

void RdmaQueue::received(const ibv_wc& completion, Instant now) {
  RdmaCapsule& capsule = receives().taken(completion.wr_id);
  worked_ = true;
  if (completion.status != IBV_WC_SUCCESS || !is_serving()) {
    // Our own queue is in the error state, and would hand it out again at once.
    if (!own_receives_) receives().give_back(capsule);
    return end_for(RdmaEvent::kEndedTransport);
  }
  // Less than a command, or more of them than the host was granted: it cannot be answered.
  if (completion.byte_len < sizeof(Command) || commands_ >= entries_ ||
      (!connected_ && ++commands_before_connect_ > kCommandsBeforeConnect)) {
    receives().give_back(capsule);
    return end_for(RdmaEvent::kEndedProtocol);
  }
  if (free_.empty() && !may_wait_for_slot()) {
    receives().give_back(capsule);
    return end_for(RdmaEvent::kEndedUnanswered);
  }
  ++commands_;
  capsule.data_bytes = completion.byte_len - static_cast<uint32_t>(sizeof(Command));
  if (!free_.empty()) return begin(capsule, now);
  ++budget_->capsules;
  waits_for_slot_.push(capsule);
}

/// The host has responses that it does not acknowledge: what it sends meanwhile is not to cost others their
/// receives.
bool RdmaQueue::may_wait_for_slot() const {
  return connected_ && (own_receives_ != nullptr || budget_->may_keep_capsule(share_.receives()->posted()));
}

void RdmaQueue::begin(RdmaCapsule& capsule, Instant now) {
  RdmaSlot& slot = *free_.pop();
  UROCE_ASSERT(slot.state == RdmaSlotState::kFree);
  std::memcpy(&slot.request.command, capsule.command(), sizeof(Command));
  slot.capsule = &capsule;
  slot.place = {};
  slot.request.data = {};
  target_queue_->receive(slot.request, now);
  if (!slot.request.ended) return find_place(slot, now);
  return_capsule(slot);
  slot.state = RdmaSlotState::kExecuting;
  ++executing_;
}

void RdmaQueue::find_place(RdmaSlot& slot, Instant now) {
  Request& request = slot.request;
  if (request.direction == Direction::kNone || request.data_bytes == 0) return execute(slot, now);
  if (request.data_bytes > facts_.data_bytes_max) return fail(slot, refused(StatusCode::kInvalidField));
  const auto found = find_data(request, slot.capsule->data_bytes);
  if (const auto* wrong = std::get_if<CommandStatus>(&found)) return fail(slot, *wrong);
  slot.place = std::get<RdmaDataPlace>(found);
  if (request.direction == Direction::kToHost && request.in_place) return execute(slot, now);
  if (slot.place.kind == RdmaDataPlace::Kind::kCapsule && slot.place.address % kRdmaDataAlignment == 0) {
    slot.piece = {slot.capsule->data.data() + slot.place.address, request.data_bytes};
    request.data = {&slot.piece, 1};
    return execute(slot, now);
  }
  if (slot.place.kind != RdmaDataPlace::Kind::kCapsule) return_capsule(slot);
  if (share_.buffers().take(slot, *budget_)) return bring_data(slot, now);
  slot.state = RdmaSlotState::kWaitsForBuffer;
  counters_->add(RdmaQueueCounter::kBufferWaits);
}

void RdmaQueue::served(RdmaSlot& slot, Instant now) {
  worked_ = true;
  bring_data(slot, now);
}

void RdmaQueue::bring_data(RdmaSlot& slot, Instant now) {
  Request& request = slot.request;
  slot.piece = {slot.buffer.memory, request.data_bytes};
  request.data = {&slot.piece, 1};
  if (request.direction == Direction::kToHost) return execute(slot, now);
  if (slot.place.kind == RdmaDataPlace::Kind::kCapsule) {
    std::memcpy(slot.buffer.memory, slot.capsule->data.data() + slot.place.address, request.data_bytes);
    return execute(slot, now);
  }
  slot.state = RdmaSlotState::kWaitsForRead;
  waits_for_read_.push(slot);
}

void RdmaQueue::read_ended(RdmaSlot& slot, bool successful, Instant now) {
  worked_ = true;
  if (!successful) return end_for(RdmaEvent::kEndedTransport);
  // The host is gone, and will not hear of the command.
  if (!is_serving()) return;
  --reading_;
  // READs end in the order of posting.
  reads_under_way_.pop();
  completed_through(slot.position);
  execute(slot, now);
}

void RdmaQueue::execute(RdmaSlot& slot, Instant now) {
  const bool data_in_capsule =
      slot.place.kind == RdmaDataPlace::Kind::kCapsule && slot.buffer.memory == nullptr;
  if (!data_in_capsule) return_capsule(slot);
  slot.state = RdmaSlotState::kExecuting;
  ++executing_;
  target_queue_->execute(slot.request, now);
}

void RdmaQueue::fail(RdmaSlot& slot, CommandStatus status) {
  return_capsule(slot);
  slot.state = RdmaSlotState::kExecuting;
  ++executing_;
  target_queue_->fail(slot.request, status);
}

void RdmaQueue::return_capsule(RdmaSlot& slot) {
  if (slot.capsule == nullptr) return;
  receives().give_back(*slot.capsule);
  slot.capsule = nullptr;
}

}  // namespace uroce::nvmf
