// Commands on their way out: READs for those that wait for data, data and completions of those that have
// ended.
//
// One SEND of each chain that the target posts is signalled: a chain's end tells of everything before it.
//
// Decision: a time-out of our own ends connections (watch_host()). A request may ask for an infinite ACK
// timeout and infinitely many RNR retries, and to clamp these would not bound the time. Cost: a host that is
// cut off for longer than `stall_timeout_s` connects again.
#include <algorithm>
#include <array>
#include <utility>

#include "nvmf/rdma/queue.h"

namespace uroce::nvmf {
namespace {

constexpr size_t kEndedBatch = 32;
constexpr size_t kChain = 64;

/// One call of ibv_post_send.
struct Chain {
  std::array<ibv_send_wr, kChain> requests;
  std::array<ibv_sge, kChain> segments;

  /// Adds a request of one segment; the previous one is linked to it.
  ibv_send_wr& add(size_t at, ibv_wr_opcode opcode, ibv_sge segment) {
    segments[at] = segment;
    ibv_send_wr& request = requests[at];
    // Most of it is for other operations, and not looked at.
    request.next = nullptr;
    request.sg_list = &segments[at];
    request.num_sge = 1;
    request.opcode = opcode;
    request.send_flags = 0;
    if (at > 0) requests[at - 1].next = &request;
    return request;
  }
};
/// Filled and posted within one call of post().
thread_local Chain chain;

ibv_sge segment_of(const iovec& piece, uint32_t key) {
  return {reinterpret_cast<uintptr_t>(piece.iov_base), static_cast<uint32_t>(piece.iov_len), key};
}

}  // namespace

bool RdmaQueue::turn(Instant now) {
  const bool worked = take_ended(now) != 0;
  if (is_serving()) {
    note_connect();
    if (!target_ends_at_ && target_queue_->ending()) target_ends_at_ = now;
    while (!waits_for_slot_.empty() && !free_.empty()) {
      --budget_->capsules;
      begin(*waits_for_slot_.pop(), now);
    }
    receives().flush();
    while (post(now)) {
    }
    watch_host(now);
  }
  return std::exchange(worked_, false) || worked;
}

/// A host that has connected has a budget of its own from then on.
void RdmaQueue::note_connect() {
  if (connected_ || !target_queue_->is_connected()) return;
  connected_ = true;
  if (target_queue_->is_discovery()) return;
  budget_ = &share_.hold_budget(host_);
  holds_host_budget_ = true;
}

/// How long a response may be under way is our decision, whatever retries the host asked for.
void RdmaQueue::watch_host(Instant now) {
  const bool trusted = connected_ && !target_queue_->is_discovery();
  const Duration allowed = trusted ? stall_max_ : std::min(stall_max_, connect_max_);
  for (const RdmaSlot* oldest : {sending_.front(), reads_under_way_.front()})
    if (oldest != nullptr && now - oldest->posted_at > allowed) end_for(RdmaEvent::kEndedStalled);
}

size_t RdmaQueue::take_ended(Instant now) {
  std::array<Request*, kEndedBatch> handed_back;
  size_t all = 0;
  // No more than there are slots, so that other queues have their turn.
  while (all < slots_.size()) {
    const size_t count = target_queue_->poll(now, handed_back);
    for (size_t i = 0; i < count; ++i) ended(*static_cast<RdmaSlot*>(handed_back[i]->user));
    all += count;
    if (count < handed_back.size()) break;
  }
  return all;
}

void RdmaQueue::ended(RdmaSlot& slot) {
  --executing_;
  return_capsule(slot);
  if (!is_serving()) return free(slot);
  // More pieces than a chain has room for: our own mistake, which costs the connection.
  if (slot.request.sends_data() && slot.request.data.size() >= kChain) end_for(RdmaEvent::kEndedTransport);
  counters_->add(RdmaQueueCounter::kCommands);
  if (!slot.request.successful()) counters_->add(RdmaQueueCounter::kErrors);
  if (slot.request.direction == Direction::kFromHost)
    counters_->add(RdmaQueueCounter::kBytesFromHost, slot.request.data_bytes);
  if (slot.request.sends_data()) counters_->add(RdmaQueueCounter::kBytesToHost, slot.request.data_bytes);
  slot.state = RdmaSlotState::kWaitsForSend;
  waits_for_send_.push(slot);
}

bool RdmaQueue::post(Instant now) {
  size_t count = chain_reads(0, now);
  count = chain_sends(count, now);
  if (count == 0) return false;
  post_chain(count);
  return !failure_;
}

/// From `at` on; the new end of the chain.
size_t RdmaQueue::chain_reads(size_t at, Instant now) {
  while (!waits_for_read_.empty() && reading_ < reads_max_ && at < std::min<size_t>(room(), kChain)) {
    RdmaSlot& slot = *waits_for_read_.pop();
    ibv_send_wr& read = chain.add(at, IBV_WR_RDMA_READ, segment_of(slot.piece, share_.buffers().local_key()));
    read.wr_id = work_id(slot, RdmaWork::kRead);
    read.send_flags = IBV_SEND_SIGNALED;
    read.wr.rdma = {.remote_addr = slot.place.address, .rkey = slot.place.key};
    slot.position = posted_ + ++at;
    slot.state = RdmaSlotState::kReading;
    slot.posted_at = now;
    reads_under_way_.push(slot);
    ++reading_;
  }
  return at;
}

size_t RdmaQueue::chain_sends(size_t at, Instant now) {
  RdmaSlot* last = nullptr;
  size_t end_of_last = at;
  while (RdmaSlot* slot = waits_for_send_.front()) {
    const size_t needed = 1 + (slot->request.sends_data() ? slot->request.data.size() : 0);
    if (failure_ || at + needed > std::min<size_t>(room(), kChain)) break;
    waits_for_send_.pop();
    at = chain_answer(*slot, at);
    slot->posted_at = now;
    last = slot;
    end_of_last = at;
  }
  // One completion tells of all that stand before it.
  if (last != nullptr) chain.requests[end_of_last - 1].send_flags = IBV_SEND_SIGNALED;
  return at;
}

size_t RdmaQueue::chain_answer(RdmaSlot& slot, size_t at) {
  const Request& request = slot.request;
  if (request.sends_data()) {
    uint64_t address = slot.place.address;
    for (const iovec& piece : request.data) {
      const std::optional<ibv_sge> segment =
          request.in_place ? share_.regions().segment(piece)
                           : std::optional(segment_of(piece, share_.buffers().local_key()));
      // Memory that is not registered: our own mistake, which costs the connection.
      if (!segment) end_for(RdmaEvent::kEndedTransport);
      ibv_send_wr& write = chain.add(at++, IBV_WR_RDMA_WRITE, segment.value_or(ibv_sge{}));
      write.wr_id = work_id(slot, RdmaWork::kSend);
      write.wr.rdma = {.remote_addr = address, .rkey = slot.place.key};
      address += piece.iov_len;
    }
  }
  *slot.sent = request.completion;
  const iovec completion{slot.sent, sizeof(Completion)};
  const bool invalidate = slot.place.invalidate && share_.device().sends_with_invalidate();
  ibv_send_wr& send = chain.add(at++, invalidate ? IBV_WR_SEND_WITH_INV : IBV_WR_SEND,
                                segment_of(completion, completions_->local_key()));
  if (invalidate) send.invalidate_rkey = slot.place.key;
  send.wr_id = work_id(slot, RdmaWork::kSend);
  slot.position = posted_ + at;
  slot.state = RdmaSlotState::kSending;
  sending_.push(slot);
  --commands_;
  return at;
}

void RdmaQueue::post_chain(size_t count) {
  ibv_send_wr* bad = nullptr;
  counters_->add(RdmaQueueCounter::kSends);
  const int error = ibv_post_send(queue_pair_, chain.requests.data(), &bad);
  // What was not taken has no completion; its slots are freed by detach().
  if (error != 0) end_for(RdmaEvent::kEndedTransport);
  posted_ += error == 0 || bad == nullptr ? count : static_cast<size_t>(bad - chain.requests.data());
}

void RdmaQueue::sent(RdmaSlot& slot, bool successful) {
  worked_ = true;
  if (!successful) return end_for(RdmaEvent::kEndedTransport);
  completed_through(slot.position);
}

void RdmaQueue::completed_through(uint64_t position) {
  done_ = std::max(done_, position);
  while (!sending_.empty() && sending_.front()->position <= done_) free(*sending_.pop());
}

void RdmaQueue::free(RdmaSlot& slot) {
  target_queue_->release(slot.request);
  share_.buffers().give_back(slot.buffer);
  slot.state = RdmaSlotState::kFree;
  free_.push(slot);
}

}  // namespace uroce::nvmf
