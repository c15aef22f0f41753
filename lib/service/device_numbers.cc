#include "service/device_numbers.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <optional>

namespace uroce::service {
namespace {

constexpr uint32_t kUnit = 1u << host::kBlockBits;
/// A program gets at most one of so many parts of what its user has left beside the least blocks.
constexpr uint64_t kParts = 4;

}  // namespace

void DeviceNumbers::set_quota(uint64_t per_user) {
  UserShares::Limits limits = UserShares::Limits::with_reserve(kNumbers, per_user);
  limits.what = "queue pair numbers";
  limits.key = "service.numbers_per_user";
  shares_.set_limits(limits);
}

uint32_t DeviceNumbers::size_for(const Request& request) const {
  const uint64_t available = shares_.available(request.user);
  const uint64_t kept = (request.programs_left + 1) * kUnit;
  const uint64_t beside = available > kept ? (available - kept) / kParts : 0;
  const uint64_t wanted = std::bit_ceil(std::max(request.count, kUnit));
  // A block's size is a power of two.
  const uint64_t most = beside < kUnit ? kUnit : std::bit_floor(beside);
  return static_cast<uint32_t>(std::min(wanted, most));
}

Result<NumberBlock> DeviceNumbers::allocate(const Request& request, Instant now) {
  end_rests(now);
  for (uint32_t count = size_for(request); count >= kUnit; count /= 2) {
    auto held = shares_.take(request.user, count);
    if (!held) return held.error();
    const std::optional<NumberBlock> block = blocks_.allocate(count, request.program, now);
    if (!block) continue;
    held_[request.program] = std::move(*held);
    return *block;
  }
  return Error{EAGAIN, "no block of queue pair numbers is free: those of ended programs rest for 4 s"};
}

Result<NumberBlock> DeviceNumbers::claim(NumberBlock block, uid_t user, Owner program, Instant now) {
  end_rests(now);
  const Error taken{EEXIST, "the queue pair numbers that the program had are another's by now"};
  // It may be the one that the user's program gave up a moment ago. Packets for others may still be under
  // way.
  const auto overlaps = [&](const Resting& resting) {
    return resting.block.first < block.first + block.count &&
           block.first < resting.block.first + resting.block.count;
  };
  UserShares::Held held;
  if (const auto at = std::ranges::find_if(resting_, overlaps); at != resting_.end()) {
    if (at->block != block || at->held.user() != user) return taken;
    held = std::move(at->held);
    resting_.erase(at);
  } else {
    auto again = shares_.take_again(user, block.count);
    if (!again) return again.error();
    held = std::move(*again);
  }
  if (!blocks_.claim(block, program)) return taken;
  held_[program] = std::move(held);
  return block;
}

void DeviceNumbers::free(NumberBlock block, Owner program, Instant now) {
  blocks_.free(block, now);
  auto held = held_.extract(program);
  if (!held.empty()) resting_.push_back({block, std::move(held.mapped()), now + host::NumberBlocks::kRest});
}

void DeviceNumbers::end_rests(Instant now) {
  while (!resting_.empty() && resting_.front().until <= now) resting_.pop_front();
}

}  // namespace uroce::service
