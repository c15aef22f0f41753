#pragma once

#include <infiniband/urocedv.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace uroce::nvmf_host {

/// A fast region for each slot of a queue, over memory that is mapped for DMA once. A command's memory is
/// registered by a work request right before its capsule and invalidated by the target's response, so that a
/// peer reaches it only as long as the command is open. For devices of urocedv.h. One thread. Throws
/// std::system_error.
class FastRegions {
 public:
  /// `memory` is that of all slots, `slot_bytes` each, and outlives the object; page-aligned, both.
  FastRegions(ibv_pd& domain, std::span<std::byte> memory, uint32_t slot_bytes);
  /// No queue pair has work requests of it any more.
  ~FastRegions();
  FastRegions(const FastRegions&) = delete;
  FastRegions& operator=(const FastRegions&) = delete;

  /// A new key of the first `bytes` of the slot's memory, at their virtual addresses, which works when what
  /// prepend() returns has been executed. EBUSY: the work requests for the last key are not complete.
  uint32_t renew(uint16_t slot, uint32_t bytes);
  /// The list of work requests that ends with `capsule`: before it comes the registration, if there is a new
  /// key, and before that the invalidation of the old key, unless a response has done that.
  ibv_send_wr* prepend(uint16_t slot, ibv_send_wr* capsule);
  /// The response to the slot's command has invalidated this key.
  void note_invalidated(uint16_t slot, uint32_t key);

 private:
  struct Slot {
    ibv_mr* region = nullptr;
    bool is_new = false;    // the key, and not posted yet
    bool is_bound = false;  // to the key that was posted last
    ibv_send_wr invalidation{};
    urocedv_send_wr registration{};
  };

  void release();

  const std::span<std::byte> memory_;
  const uint32_t slot_bytes_;
  ibv_context& context_;
  uint64_t bus_address_ = UROCEDV_DMA_ERROR;
  std::vector<Slot> slots_;
};

}  // namespace uroce::nvmf_host
