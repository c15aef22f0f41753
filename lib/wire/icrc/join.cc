#include "wire/icrc/join.h"

#include <bit>
#include <iterator>

#include "wire/icrc/crc_folding.h"

namespace uroce::wire {
namespace {

using namespace folding;

/// Moves a register from the beginning of so many bytes to the last of their blocks.
constexpr IcrcJoin join_of(size_t bytes) {
  return IcrcJoin(factor(static_cast<unsigned>(bytes - kBlock) * 8 + 64));
}

constexpr size_t kLeast = 256;
constexpr IcrcJoin kJoins[] = {join_of(256), join_of(512), join_of(1024), join_of(2048), join_of(4096)};

}  // namespace

const IcrcJoin* IcrcJoin::of_payload(size_t bytes) {
  if (!std::has_single_bit(bytes) || bytes < kLeast) return nullptr;
  const auto index = static_cast<size_t>(std::countr_zero(bytes) - std::countr_zero(kLeast));
  return index < std::size(kJoins) ? &kJoins[index] : nullptr;
}

UROCE_PCLMUL uint32_t IcrcJoin::operator()(uint32_t before, uint32_t payload) const {
  const __m128i block = _mm_cvtsi32_si128(static_cast<int>(~before));
  const __m128i moved = _mm_clmulepi64_si128(block, _mm_cvtsi64_si128(factor_), 0x00);
  return ~(reduce(moved) ^ ~payload);
}

}  // namespace uroce::wire
