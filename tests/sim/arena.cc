#include "tests/sim/arena.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace uroce::sim {

Arena::Arena(mem::RegionTable& regions, DomainId domain, uint64_t iova, Random& random, uint64_t bytes)
    : iova_(iova), bytes_(bytes), memory_(new(std::align_val_t{kPageBytes}) std::byte[bytes]), model_(bytes) {
  for (uint64_t at = 0; at < bytes_; at += sizeof(uint64_t)) {
    const uint64_t bits = random.next();
    std::memcpy(model_.data() + at, &bits, sizeof bits);
  }
  std::memcpy(memory_.get(), model_.data(), bytes_);
  auto keys = regions.register_user({.domain = domain,
                                     .address = memory_.get(),
                                     .length = bytes_,
                                     .iova = iova,
                                     .access = mem::kLocalWrite | mem::kRemoteWrite | mem::kRemoteRead,
                                     .ours = true});
  if (!keys) throw std::runtime_error(keys.error().message);
  keys_ = *keys;
}

std::optional<Arena::Slot> Arena::lend(uint64_t length, Random& random) {
  const uint64_t need = length + 2 * kGuardBytes + random.below(kAlignment);
  if (need > bytes_) return std::nullopt;
  // First fit from a random place, once around.
  const uint64_t start = random.below(bytes_);
  for (const bool again : {false, true}) {
    uint64_t begin = again ? 0 : start;
    auto next = lent_.upper_bound(begin);
    if (next != lent_.begin()) begin = std::max(begin, std::prev(next)->second);
    for (;; begin = next->second, ++next) {
      const uint64_t end = next == lent_.end() ? bytes_ : next->first;
      if (end >= begin + need) {
        lent_.emplace(begin, begin + need);
        lent_bytes_ += need;
        return Slot{begin + kGuardBytes, length};
      }
      if (next == lent_.end()) break;
    }
  }
  return std::nullopt;
}

std::string Arena::give_back(const Slot& slot) {
  std::string wrong = check(slot);
  const auto lent = lent_.find(slot.offset - kGuardBytes);
  if (lent == lent_.end()) return wrong + " slot was not lent";
  lent_bytes_ -= lent->second - lent->first;
  lent_.erase(lent);
  return wrong;
}

void Arena::write(const Slot& slot, std::span<const std::byte> bytes) {
  std::copy(bytes.begin(), bytes.end(), memory_.get() + slot.offset);
  expect(slot, bytes);
}

void Arena::expect(const Slot& slot, std::span<const std::byte> bytes) {
  std::copy(bytes.begin(), bytes.end(), model_.data() + slot.offset);
}

std::string Arena::compare(uint64_t begin, uint64_t end) const {
  if (std::memcmp(memory_.get() + begin, model_.data() + begin, end - begin) == 0) return {};
  const auto differ = std::mismatch(memory_.get() + begin, memory_.get() + end, model_.data() + begin);
  return "wrong byte at " + std::to_string(differ.first - memory_.get()) + " in " + std::to_string(begin) +
         ".." + std::to_string(end);
}

std::string Arena::check(const Slot& slot) const {
  return compare(slot.offset - kGuardBytes, slot.offset + slot.length + kGuardBytes);
}

std::string Arena::check() const {
  uint64_t begin = 0;
  for (const auto& [lent, end] : lent_) {
    if (const std::string wrong = compare(begin, lent); !wrong.empty()) return wrong;
    begin = end;
  }
  return compare(begin, bytes_);
}

queue::Segment Arena::segment(const Slot& slot) const {
  return {iova(slot), static_cast<uint32_t>(slot.length), keys_.lkey};
}

}  // namespace uroce::sim
