#include "mem/regions/buddy_blocks.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/values/contract.h"

namespace uroce::mem {

BuddyBlocks::BuddyBlocks() : orders_(kBytes / kBlockMin) {
  for (uint32_t order = 0; order < kOrders; ++order)
    free_[order].words.resize(((kBytes / kBlockMin >> order) + 63) / 64);
  put(kOrders - 1, 0);
}

void BuddyBlocks::put(uint32_t order, uint32_t offset) {
  const uint32_t block = offset / kBlockMin >> order;
  UROCE_ASSERT((free_[order].words[block / 64] >> block % 64 & 1) == 0);
  free_[order].words[block / 64] |= uint64_t{1} << block % 64;
  ++free_[order].count;
}

/// False: it is not free, or not as a block of that size.
bool BuddyBlocks::take(uint32_t order, uint32_t offset) {
  const uint32_t block = offset / kBlockMin >> order;
  const uint64_t bit = uint64_t{1} << block % 64;
  if ((free_[order].words[block / 64] & bit) == 0) return false;
  free_[order].words[block / 64] &= ~bit;
  --free_[order].count;
  return true;
}

/// There is one.
uint32_t BuddyBlocks::first(uint32_t order) const {
  UROCE_ASSERT(free_[order].count > 0);
  const std::vector<uint64_t>& words = free_[order].words;
  const auto word = std::ranges::find_if(words, [](uint64_t bits) { return bits != 0; });
  const auto block = static_cast<uint32_t>((word - words.begin()) * 64 + std::countr_zero(*word));
  return (block << order) * kBlockMin;
}

std::optional<uint32_t> BuddyBlocks::allocate(uint32_t bytes) {
  UROCE_ASSERT(bytes > 0 && bytes <= kBlockMax);
  const auto wanted =
      static_cast<uint32_t>(std::countr_zero(std::bit_ceil(std::max(bytes, kBlockMin)) / kBlockMin));
  uint32_t order = wanted;
  while (order < kOrders && free_[order].count == 0) ++order;
  if (order >= kOrders) return std::nullopt;
  const uint32_t offset = first(order);
  [[maybe_unused]] const bool was_free = take(order, offset);
  UROCE_ASSERT(was_free && orders_[offset / kBlockMin] == 0);
  while (order-- > wanted) put(order, offset + (kBlockMin << order));
  orders_[offset / kBlockMin] = static_cast<uint8_t>(wanted + 1);
  return offset;
}

bool BuddyBlocks::free(uint32_t offset) {
  if (offset >= kBytes || offset % kBlockMin != 0 || orders_[offset / kBlockMin] == 0) return false;
  uint32_t order = std::exchange(orders_[offset / kBlockMin], uint8_t{0}) - 1u;
  for (; order + 1 < kOrders && take(order, offset ^ (kBlockMin << order)); ++order)
    offset &= ~(kBlockMin << order);
  put(order, offset);
  return true;
}

}  // namespace uroce::mem
