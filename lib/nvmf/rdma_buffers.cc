#include "nvmf/rdma_buffers.h"

#include <utility>

namespace uroce::nvmf {

Result<std::unique_ptr<RdmaBuffers>> RdmaBuffers::allocate(ibv_pd& domain, const RdmaOptions& options) {
  const size_t large_bytes = size_t{options.large_buffers} * options.data_bytes_max;
  const size_t small_bytes = size_t{options.small_buffers} * RdmaOptions::kSmallBufferBytes;
  auto memory = RdmaMemory::allocate(domain, large_bytes + small_bytes);
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

bool RdmaBuffers::take(RdmaSlot& slot) {
  const bool large = is_large(slot);
  Size& size = large ? large_ : small_;
  if (size.free.empty() || !size.waiting.empty()) {
    ++waits_;
    size.waiting.push(slot);
    return false;
  }
  slot.buffer = {size.free.back(), large};
  size.free.pop_back();
  return true;
}

void RdmaBuffers::give_back(RdmaBuffer& buffer) {
  if (buffer.memory == nullptr) return;
  (buffer.large ? large_ : small_).free.push_back(std::exchange(buffer.memory, nullptr));
}

RdmaSlot* RdmaBuffers::next_served() {
  for (Size* size : {&small_, &large_}) {
    if (size->waiting.empty() || size->free.empty()) continue;
    RdmaSlot* slot = size->waiting.pop();
    slot->buffer = {size->free.back(), size == &large_};
    size->free.pop_back();
    return slot;
  }
  return nullptr;
}

void RdmaBuffers::forget(const RdmaQueue& queue) {
  const auto is_of_queue = [&](const RdmaSlot& slot) { return slot.queue == &queue; };
  small_.waiting.remove(is_of_queue);
  large_.waiting.remove(is_of_queue);
}

}  // namespace uroce::nvmf
