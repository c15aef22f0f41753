#include "tests/sim/crowd_member.h"

#include <cstring>

#include "base/values/random.h"

namespace uroce::sim {

std::vector<std::byte> message_of(const Member& member, uint32_t number) {
  Random random(member.seed ^ (uint64_t{number} << 20));
  const MessageHead head{.member = member.index, .number = number};
  std::vector<std::byte> bytes(sizeof(head) + random.below(member.bytes_max - sizeof(head) + 1));
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.next());
  std::memcpy(bytes.data(), &head, sizeof(head));
  return bytes;
}

RegisteredMemory::RegisteredMemory(engine::Device& device, DomainId domain, size_t bytes)
    : device_(device), memory_(bytes) {
  mem::UserRegion region{.domain = domain, .address = memory_.data(), .length = memory_.size(), .iova = 0};
  region.access = mem::kLocalWrite;
  keys_ = device.regions().register_user(region).value();
}

std::string RegisteredMemory::close() {
  const Status ended = device_.regions().deregister(keys_.lkey);
  return ended ? std::string() : ended.error().message;
}

queue::Segment RegisteredMemory::segment(size_t offset, size_t count) const {
  return {offset, static_cast<uint32_t>(count), keys_.lkey};
}

}  // namespace uroce::sim
