#pragma once

#include <cstdint>

#include "base/values/identifiers.h"

namespace uroce::net {

/// FNV-1a over the sixteen bytes.
constexpr uint32_t address_hash(const Gid& gid) {
  uint32_t hash = 0x811C9DC5u;
  for (const uint8_t byte : gid.bytes) hash = (hash ^ byte) * 0x01000193u;
  return hash;
}

}  // namespace uroce::net
