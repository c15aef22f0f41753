#include "wire/short_icrc.h"

#include <algorithm>

#include "wire/big_endian.h"
#include "wire/crc_folding.h"
#include "wire/variant_mask.h"

namespace uroce::wire {
namespace {

using namespace folding;

UROCE_PCLMUL inline __m128i load_masked(const std::byte* ip, size_t at, const uint8_t* mask) {
  return _mm_or_si128(load(ip + at), load(mask + at));
}

}  // namespace

UROCE_PCLMUL uint32_t short_icrc(std::span<const std::byte> ip_packet) {
  const std::byte* const ip = ip_packet.data();
  const size_t bytes = ip_packet.size();
  const uint8_t* const mask = load_u8(ip) >> 4 == 4 ? kIpv4VariantMask.data() : kIpv6VariantMask.data();

  __m128i block =
      _mm_xor_si128(load_masked(ip, 0, mask), _mm_cvtsi32_si128(static_cast<int>(kRegisterBehindLrh)));
  size_t at = kBlock;
  if (bytes >= kLanes * kBlock) {
    __m128i lane1 = load_masked(ip, 16, mask);
    __m128i lane2 = load_masked(ip, 32, mask);
    __m128i lane3 = load_masked(ip, 48, mask);
    for (at = kLanes * kBlock; at + kLanes * kBlock <= bytes; at += kLanes * kBlock) {
      block = _mm_xor_si128(fold<kLanes * kBlock>(block), load(ip + at));
      lane1 = _mm_xor_si128(fold<kLanes * kBlock>(lane1), load(ip + at + 16));
      lane2 = _mm_xor_si128(fold<kLanes * kBlock>(lane2), load(ip + at + 32));
      lane3 = _mm_xor_si128(fold<kLanes * kBlock>(lane3), load(ip + at + 48));
    }
    block =
        _mm_xor_si128(_mm_xor_si128(fold<48>(block), fold<32>(lane1)), _mm_xor_si128(fold<16>(lane2), lane3));
  }
  const size_t mask_end = kVariantMaskBytes - kBlock;
  for (; at + kBlock <= bytes; at += kBlock) {
    block =
        _mm_xor_si128(fold<kBlock>(block), _mm_or_si128(load(ip + at), load(mask + std::min(at, mask_end))));
  }
  if (at < bytes) {
    const size_t last = bytes - kBlock;
    const __m128i masked = _mm_or_si128(load(ip + last), load(mask + std::min(last, mask_end)));
    block = append_tail(block, masked, bytes - at);
  }
  return ~reduce(block);
}

}  // namespace uroce::wire
