#include "net/neighbour_table.h"

#include <bit>

#include "base/values/contract.h"
#include "net/address_hash.h"

namespace uroce::net {

NeighbourTable::NeighbourTable(size_t capacity) : slots_(std::bit_ceil(capacity * 2)), capacity_(capacity) {
  UROCE_ASSERT(capacity > 0);
}

size_t NeighbourTable::home(const Gid& address) const { return address_hash(address) & (slots_.size() - 1); }

size_t NeighbourTable::probe(const Gid& address) const {
  size_t slot = home(address);
  while (slots_[slot].state != NeighbourState::kFree && slots_[slot].address != address) {
    slot = (slot + 1) & (slots_.size() - 1);
  }
  return slot;
}

Neighbour* NeighbourTable::find(const Gid& address) {
  Neighbour& neighbour = slots_[probe(address)];
  return neighbour.state == NeighbourState::kFree ? nullptr : &neighbour;
}

const Neighbour* NeighbourTable::find(const Gid& address) const {
  const Neighbour& neighbour = slots_[probe(address)];
  return neighbour.state == NeighbourState::kFree ? nullptr : &neighbour;
}

Neighbour* NeighbourTable::insert(const Gid& address) {
  if (size_ == capacity_) return nullptr;
  Neighbour& neighbour = slots_[probe(address)];
  UROCE_ASSERT(neighbour.state == NeighbourState::kFree);
  ++size_;
  neighbour = {.address = address, .state = NeighbourState::kAsking};
  return &neighbour;
}

void NeighbourTable::erase(const Gid& address) {
  const size_t mask = slots_.size() - 1;
  size_t hole = probe(address);
  UROCE_ASSERT(slots_[hole].state != NeighbourState::kFree);
  --size_;
  // A later entry of the same run moves into the hole when its home does not lie behind the hole.
  for (size_t slot = (hole + 1) & mask; slots_[slot].state != NeighbourState::kFree;
       slot = (slot + 1) & mask) {
    const size_t distance_home = (slot - home(slots_[slot].address)) & mask;
    if (distance_home >= ((slot - hole) & mask)) {
      slots_[hole] = slots_[slot];
      hole = slot;
    }
  }
  slots_[hole] = {};
}

}  // namespace uroce::net
