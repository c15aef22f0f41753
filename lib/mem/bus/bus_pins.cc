#include "mem/bus/bus_pins.h"

#include "base/values/contract.h"

namespace uroce::mem {

std::byte* BusPins::add(uint64_t address, uint64_t length, Access access) {
  UROCE_ASSERT(addresses_.size() < addresses_.capacity());
  const BusSpace::Pinned pinned = bus_.pin(address, length, access);
  if (pinned.data == nullptr) return nullptr;
  addresses_.push_back(address);
  readable_ = readable_ && pinned.readable;
  return pinned.data;
}

void BusPins::take_from(BusPins& other) {
  UROCE_ASSERT(addresses_.empty() && other.addresses_.size() <= addresses_.capacity());
  addresses_.assign(other.addresses_.begin(), other.addresses_.end());
  readable_ = other.readable_;
  other.forget();
}

void BusPins::release() {
  for (const uint64_t address : addresses_) bus_.unpin(address);
  forget();
}

void BusPins::forget() {
  addresses_.clear();
  readable_ = true;
}

}  // namespace uroce::mem
