#pragma once

#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <unordered_map>

#include "base/tables/number_block.h"
#include "base/values/result.h"
#include "base/values/time.h"
#include "host/number_blocks.h"
#include "service/user_shares.h"

namespace uroce::service {

/// The queue pair numbers of a device: which program has which, and how many of them each user has. Numbers
/// of a program that has ended are its user's until they have rested, so that programs that come and go take
/// no more than those that stay. Belongs to the control thread.
class DeviceNumbers {
 public:
  using Owner = host::NumberBlocks::Owner;
  /// All but the first and the last block.
  static constexpr uint64_t kNumbers = uint64_t{host::NumberBlocks::kBlocks - 2} << host::kBlockBits;

  explicit DeviceNumbers(uint64_t seed) : blocks_(seed) {}

  void set_quota(uint64_t per_user);

  struct Request {
    uid_t user = 0;
    Owner program = 0;
    uint32_t count = 0;          // numbers that the program would like to have
    uint64_t programs_left = 0;  // programs that the user may start after this one
  };
  /// A block of that size or of a smaller one: each of the programs that the user may still start finds the
  /// least block, and a program gets at most a quarter of what is left beside these. EDQUOT: the user has a
  /// whole share; EAGAIN: no block is free.
  Result<NumberBlock> allocate(const Request& request, Instant now);
  /// The very block, which a program of the user had before. EEXIST: another one has it by now.
  Result<NumberBlock> claim(NumberBlock block, uid_t user, Owner program, Instant now);
  /// The program has ended.
  void free(NumberBlock block, Owner program, Instant now);

  [[nodiscard]] Owner owner_of(QpNumber number) const { return blocks_.owner_of(number); }
  [[nodiscard]] const UserShares& shares() const { return shares_; }

 private:
  struct Resting {
    NumberBlock block;
    UserShares::Held held;
    Instant until;
  };

  void end_rests(Instant now);
  [[nodiscard]] uint32_t size_for(const Request& request) const;

  host::NumberBlocks blocks_;
  UserShares shares_;
  std::unordered_map<Owner, UserShares::Held> held_;
  std::deque<Resting> resting_;  // oldest first
};

}  // namespace uroce::service
