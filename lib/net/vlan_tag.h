#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "base/values/contract.h"
#include "wire/big_endian.h"
#include "wire/vlan.h"

namespace uroce::net {

/// Puts a tag of `vlan`, without priority, into the untagged frame of `length` bytes at the start of
/// `buffer`; returns its new length.
inline uint32_t put_tag(std::span<std::byte> buffer, uint32_t length, uint16_t vlan) {
  constexpr size_t kAddresses = 12;
  UROCE_ASSERT(length >= kAddresses && length + wire::kVlanTagBytes <= buffer.size());
  std::byte* const at = buffer.data() + kAddresses;
  std::memmove(at + wire::kVlanTagBytes, at, length - kAddresses);
  wire::store_be16(at, wire::kEtherTypeVlan);
  wire::store_be16(at + 2, vlan);
  return static_cast<uint32_t>(length + wire::kVlanTagBytes);
}

}  // namespace uroce::net
