// Decision: the numbers of a program are a block of 2^12 at least, and its communication ids have the same
// upper bits. One shift says whose a frame is.
#include "host/number_blocks.h"

#include <algorithm>
#include <bit>

namespace uroce::host {
namespace {

constexpr uint32_t kUnit = 1u << kBlockBits;

}  // namespace

std::optional<NumberBlock> NumberBlocks::allocate(uint32_t count, Owner owner, Instant now) {
  // Half of the space has neither the first nor the last block in it only when there are at least four of
  // that size.
  constexpr uint32_t kCountMax = kBlocks / 4 * kUnit;
  if (count > kCountMax) return std::nullopt;
  const uint32_t size = std::bit_ceil(std::max(count, kUnit));
  const uint32_t places = kBlocks * kUnit / size;
  const auto start = static_cast<uint32_t>(random_.below(places));
  for (uint32_t i = 0; i < places; ++i) {
    const NumberBlock block{(start + i) % places * size, size};
    if (!is_free(block, now)) continue;
    set(block, {.owner = owner});
    return block;
  }
  return std::nullopt;
}

bool NumberBlocks::claim(NumberBlock block, Owner owner) {
  if (!is_block_of_program(block) || !is_free(block, Instant{INT64_MAX})) return false;
  set(block, {.owner = owner});
  return true;
}

void NumberBlocks::free(NumberBlock block, Instant now) {
  set(block, {.owner = 0, .rests_until = now + kRest});
}

bool NumberBlocks::is_free(NumberBlock block, Instant now) const {
  const uint32_t begin = block.first / kUnit;
  const uint32_t end = begin + block.count / kUnit;
  if (begin == 0 || end == kBlocks) return false;
  return std::all_of(slots_.begin() + begin, slots_.begin() + end,
                     [&](const Slot& slot) { return slot.owner == 0 && slot.rests_until <= now; });
}

void NumberBlocks::set(NumberBlock block, Slot slot) {
  const uint32_t begin = block.first / kUnit;
  std::fill_n(slots_.begin() + begin, block.count / kUnit, slot);
}

}  // namespace uroce::host
