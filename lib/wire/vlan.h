#pragma once

#include <cstddef>
#include <cstdint>

// VLAN tags (IEEE 802.1Q): behind the MACs, an EtherType and the TCI, which is a priority (3 bits), one bit
// that is of no matter here, and the VLAN (12 bits).
namespace uroce::wire {

inline constexpr size_t kVlanTagBytes = 4;
inline constexpr uint16_t kEtherTypeVlan = 0x8100;

/// 0: the tag says nothing but a priority.
constexpr uint16_t vlan_of(uint16_t tci) { return tci & 0x0FFF; }
constexpr uint8_t priority_of(uint16_t tci) { return static_cast<uint8_t>(tci >> 13); }
constexpr uint16_t make_tci(uint16_t vlan, uint8_t priority) {
  return static_cast<uint16_t>(priority << 13 | vlan);
}

}  // namespace uroce::wire
