#include "mem/bus_pins.h"

namespace uroce::mem {

std::byte* BusPins::add(uint64_t address, uint64_t length, Access access) {
  const bool writes = access.any(kWriting);
  addresses_.push_back(address);
  std::byte* const data = bus_.pin(address, length, writes ? kLocalWrite : Access{});
  if (data == nullptr) {
    addresses_.pop_back();
    return nullptr;
  }
  // It is pinned, so it stays what it is between the two looks.
  const bool reads = bus_.translate(address, length, {}).data != nullptr;
  if (!reads && access.any(kRemoteRead)) {
    addresses_.pop_back();
    bus_.unpin(address);
    return nullptr;
  }
  readable_ = readable_ && reads;
  return data;
}

void BusPins::release() {
  for (const uint64_t address : addresses_) bus_.unpin(address);
  addresses_.clear();
  readable_ = true;
}

}  // namespace uroce::mem
