// Staging buffers come in two sizes, kSmallBufferBytes and a command's most, with a queue of waiters for
// each. A command has one segment, nothing is fragmented, and no host is passed over. Cost: 24 MiB for each
// poller and device by default.
//
// Decision: budgets go by what is free (budget.h), so that one host alone has four fifths, and the next one
// always finds some. Cost: one fifth is idle while there is only one host.
#include "nvmf/rdma/buffers.h"

#include <utility>

namespace uroce::nvmf {

Result<std::unique_ptr<RdmaBuffers>> RdmaBuffers::allocate(ibv_pd& domain, const RdmaOptions& options) {
  const size_t large_bytes = size_t{options.large_buffers} * options.data_bytes_max;
  const size_t small_bytes = size_t{options.small_buffers} * RdmaOptions::kSmallBufferBytes;
  auto memory = RdmaMemory::allocate(domain, large_bytes + small_bytes, UROCEDV_DMA_BIDIRECTIONAL);
  if (!memory) return memory.error();
  std::unique_ptr<RdmaBuffers> buffers(new RdmaBuffers);
  std::byte* at = (*memory)->bytes().data();
  for (uint32_t i = 0; i < options.large_buffers; ++i, at += options.data_bytes_max)
    buffers->large_.free.push_back(at);
  for (uint32_t i = 0; i < options.small_buffers; ++i, at += RdmaOptions::kSmallBufferBytes)
    buffers->small_.free.push_back(at);
  buffers->memory_ = std::move(*memory);
  return buffers;
}

void RdmaBuffers::give(Size& size, RdmaBufferBudget& budget, RdmaSlot& slot) {
  slot.buffer = {size.free.back(), size.large, &budget};
  size.free.pop_back();
  ++budget.held;
}

bool RdmaBuffers::take(RdmaSlot& slot, RdmaBudget& budget) {
  const bool large = is_large(slot);
  Size& size = large ? large_ : small_;
  RdmaBufferBudget& of_size = large ? budget.large : budget.small;
  if (size.hosts_waiting == 0 && of_size.may_take(size.free_count())) {
    give(size, of_size, slot);
    return true;
  }
  of_size.waiting.push(slot);
  if (!std::exchange(of_size.listed, true)) {
    size.waiting.push(of_size);
    ++size.hosts_waiting;
  }
  return false;
}

void RdmaBuffers::give_back(RdmaBuffer& buffer) {
  if (buffer.memory == nullptr) return;
  (buffer.large ? large_ : small_).free.push_back(std::exchange(buffer.memory, nullptr));
  --std::exchange(buffer.budget, nullptr)->held;
}

RdmaSlot* RdmaBuffers::next_served() {
  RdmaSlot* slot = serve(small_);
  return slot != nullptr ? slot : serve(large_);
}

RdmaSlot* RdmaBuffers::serve(Size& size) {
  for (uint32_t i = size.hosts_waiting; i > 0; --i) {
    RdmaBufferBudget& budget = *size.waiting.pop();
    RdmaSlot* slot = nullptr;
    if (budget.may_take(size.free_count())) {
      slot = budget.waiting.pop();
      give(size, budget, *slot);
    }
    if (budget.waiting.empty()) {
      budget.listed = false;
      --size.hosts_waiting;
    } else {
      size.waiting.push(budget);
    }
    if (slot != nullptr) return slot;
  }
  return nullptr;
}

void RdmaBuffers::forget(const RdmaQueue& queue) {
  forget(small_, queue);
  forget(large_, queue);
}

void RdmaBuffers::forget(Size& size, const RdmaQueue& queue) {
  size.waiting.remove([&](RdmaBufferBudget& budget) {
    budget.waiting.remove([&](const RdmaSlot& slot) { return slot.queue == &queue; });
    budget.listed = !budget.waiting.empty();
    if (!budget.listed) --size.hosts_waiting;
    return !budget.listed;
  });
}

}  // namespace uroce::nvmf
