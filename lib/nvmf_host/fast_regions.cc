// Decision: a queue may register the memory of each command, as the Linux host does. A target, or an attacker
// that forges its packets, then reaches memory only while a command is open. Cost: a work request for each
// command (`nvmf_cpu_us.ram.randread4k_registered` of `perf/run`), and devices of urocedv.h only.
#include "nvmf_host/fast_regions.h"

#include <cerrno>
#include <system_error>

namespace uroce::nvmf_host {
namespace {

constexpr uint64_t kPage = 4096;
constexpr int kAccess = int{IBV_ACCESS_LOCAL_WRITE} | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;

void must(bool good, const char* what) {
  if (!good) throw std::system_error(errno, std::generic_category(), what);
}

}  // namespace

FastRegions::FastRegions(ibv_pd& domain, std::span<std::byte> memory, uint32_t slot_bytes)
    : memory_(memory),
      slot_bytes_(slot_bytes),
      context_(*domain.context),
      slots_(memory.size() / slot_bytes) {
  try {
    bus_address_ = urocedv_dma_map_single(&context_, memory.data(), memory.size(), UROCEDV_DMA_BIDIRECTIONAL);
    must(bus_address_ != UROCEDV_DMA_ERROR, "urocedv_dma_map_single");
    const auto pages = static_cast<uint32_t>((slot_bytes + kPage - 1) / kPage);
    for (Slot& slot : slots_) {
      slot.region = urocedv_alloc_mr(&domain, UROCEDV_MR_TYPE_MEM_REG, pages);
      must(slot.region != nullptr, "urocedv_alloc_mr");
    }
  } catch (...) {
    release();
    throw;
  }
}

FastRegions::~FastRegions() { release(); }

void FastRegions::release() {
  for (const Slot& slot : slots_) {
    if (slot.region != nullptr) ibv_dereg_mr(slot.region);
  }
  if (bus_address_ != UROCEDV_DMA_ERROR)
    urocedv_dma_unmap_single(&context_, bus_address_, memory_.size(), UROCEDV_DMA_BIDIRECTIONAL);
}

uint32_t FastRegions::renew(uint16_t number, uint32_t bytes) {
  Slot& slot = slots_[number];
  const size_t at = size_t{number} * slot_bytes_;
  const urocedv_sg sg{.comp_mask = 0,
                      .address = memory_.data() + at,
                      .length = bytes,
                      .dma_length = bytes,
                      .dma_address = bus_address_ + at};
  must(urocedv_map_mr_sg(slot.region, &sg, 1, nullptr, kPage) == 1, "urocedv_map_mr_sg");
  slot.invalidation = {};
  slot.invalidation.opcode = IBV_WR_LOCAL_INV;
  slot.invalidation.invalidate_rkey = slot.region->rkey;
  urocedv_update_key(slot.region, static_cast<uint8_t>(slot.region->rkey + 1));
  slot.registration = {};
  slot.registration.wr.opcode = IBV_WR_DRIVER1;
  slot.registration.opcode = UROCEDV_WR_REG_MR;
  slot.registration.reg_mr = {
      .mr = slot.region,
      .attr = {.iova = reinterpret_cast<uintptr_t>(sg.address), .key = slot.region->rkey, .access = kAccess}};
  slot.is_new = true;
  return slot.region->rkey;
}

ibv_send_wr* FastRegions::prepend(uint16_t number, ibv_send_wr* capsule) {
  Slot& slot = slots_[number];
  if (!slot.is_new) return capsule;
  slot.is_new = false;
  const bool was_bound = slot.is_bound;
  slot.is_bound = true;
  slot.registration.wr.next = capsule;
  if (!was_bound) return &slot.registration.wr;
  slot.invalidation.next = &slot.registration.wr;
  return &slot.invalidation;
}

void FastRegions::note_invalidated(uint16_t number, uint32_t key) {
  if (number < slots_.size() && slots_[number].region->rkey == key) slots_[number].is_bound = false;
}

}  // namespace uroce::nvmf_host
