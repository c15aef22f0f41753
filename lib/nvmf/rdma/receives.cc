// A receive has two segments, the command and page-aligned data, so that data in a capsule is written to
// devices without a copy. Cost: a page for each receive.
#include "nvmf/rdma/receives.h"

namespace uroce::nvmf {
namespace {

constexpr size_t kDataAlignment = 4096;

}  // namespace

Result<std::unique_ptr<RdmaReceives>> RdmaReceives::allocate(ibv_pd& domain, uint32_t entries,
                                                             uint32_t in_capsule_bytes) {
  const size_t stride = (in_capsule_bytes + kDataAlignment - 1) / kDataAlignment * kDataAlignment;
  auto memory = RdmaMemory::allocate(domain, entries * (stride + sizeof(Command)), UROCEDV_DMA_FROM_DEVICE);
  if (!memory) return memory.error();
  std::unique_ptr<RdmaReceives> receives(new RdmaReceives);
  std::byte* const data = (*memory)->bytes().data();
  std::byte* const commands = data + entries * stride;
  const uint32_t key = (*memory)->local_key();
  receives->capsules_.resize(entries);
  for (uint32_t i = 0; i < entries; ++i) {
    RdmaCapsule& capsule = receives->capsules_[i];
    capsule.data = {data + i * stride, in_capsule_bytes};
    capsule.segments[0] = {reinterpret_cast<uintptr_t>(commands + i * sizeof(Command)), sizeof(Command), key};
    capsule.segments[1] = {reinterpret_cast<uintptr_t>(capsule.data.data()), in_capsule_bytes, key};
  }
  receives->memory_ = std::move(*memory);
  return receives;
}

bool RdmaReceives::first_post(ibv_qp& queue_pair) {
  queue_pair_ = &queue_pair;
  return post_all();
}

bool RdmaReceives::first_post(ibv_srq& shared) {
  shared_ = &shared;
  return post_all();
}

bool RdmaReceives::post_all() {
  for (RdmaCapsule& capsule : capsules_) give_back(capsule);
  flush();
  return posted_ == capsules_.size();
}

RdmaCapsule& RdmaReceives::taken(uint64_t work_id) {
  --posted_;
  return owner_of<RdmaCapsule>(work_id);
}

void RdmaReceives::give_back(RdmaCapsule& capsule) {
  if (ended_) return;
  ibv_recv_wr& request = batch_[batched_];
  request.wr_id = work_id(capsule, RdmaWork::kReceive);
  request.sg_list = capsule.segments.data();
  request.num_sge = capsule.data.empty() ? 1 : 2;
  if (++batched_ == kBatch) flush();
}

void RdmaReceives::flush() {
  if (batched_ == 0) return;
  for (size_t i = 0; i < batched_; ++i) batch_[i].next = i + 1 < batched_ ? &batch_[i + 1] : nullptr;
  ibv_recv_wr* bad = nullptr;
  const int error = shared_ != nullptr ? ibv_post_srq_recv(shared_, batch_.data(), &bad)
                                       : ibv_post_recv(queue_pair_, batch_.data(), &bad);
  // A queue that takes no more belongs to a device that is gone: nothing will come from it either.
  const auto accepted = static_cast<size_t>(bad == nullptr ? 0 : bad - batch_.data());
  posted_ += static_cast<uint32_t>(error == 0 ? batched_ : accepted);
  batched_ = 0;
}

}  // namespace uroce::nvmf
