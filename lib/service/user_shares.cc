// Decision: the owner of what is shared is a user. A user can have any number of programs, so quotas of
// programs alone bind no user. Cost: the 257th program of a user needs a key of the configuration.
#include "service/user_shares.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

#include "base/values/contract.h"

namespace uroce::service {
namespace {

uint64_t left(uint64_t limit, uint64_t taken) { return limit > taken ? limit - taken : 0; }

}  // namespace

UserShares::Held& UserShares::Held::operator=(Held&& other) noexcept {
  if (this == &other) return *this;
  give_back(amount_);
  of_ = std::exchange(other.of_, nullptr);
  user_ = other.user_;
  amount_ = std::exchange(other.amount_, 0);
  return *this;
}

void UserShares::Held::give_back(uint64_t amount) {
  UROCE_ASSERT(amount <= amount_);
  if (of_ == nullptr || amount == 0) return;
  amount_ -= amount;
  of_->total_ -= amount;
  const auto at = of_->users_.find(user_);
  UROCE_ASSERT(at != of_->users_.end() && at->second >= amount);
  at->second -= amount;
  if (at->second == 0) of_->users_.erase(at);
}

void UserShares::Held::add(Held other) {
  if (of_ == nullptr) {
    *this = std::move(other);
    return;
  }
  UROCE_ASSERT(other.of_ == of_ && other.user_ == user_);
  amount_ += std::exchange(other.amount_, 0);
}

uint64_t UserShares::of(uid_t user) const {
  const auto at = users_.find(user);
  return at == users_.end() ? 0 : at->second;
}

uint64_t UserShares::available(uid_t user) const {
  const uint64_t has = of(user);
  const uint64_t outside = std::min(left(limits_.per_user, has), left(limits_.all - limits_.reserve, total_));
  const uint64_t reserved = std::min(left(limits_.reserve_each, has), left(limits_.all, total_));
  // One whose quota is smaller than a part of the reserve has no more for that.
  return std::min(std::max(outside, reserved), left(limits_.per_user, has));
}

Result<UserShares::Held> UserShares::take(uid_t user, uint64_t amount) {
  if (amount > available(user)) return refusal(user, amount);
  return grant(user, amount);
}

Result<UserShares::Held> UserShares::take_again(uid_t user, uint64_t amount) {
  if (amount > std::min(left(limits_.per_user, of(user)), left(limits_.all, total_)))
    return refusal(user, amount);
  return grant(user, amount);
}

UserShares::Held UserShares::grant(uid_t user, uint64_t amount) {
  if (amount == 0) return {};
  users_[user] += amount;
  total_ += amount;
  return {*this, user, amount};
}

Error UserShares::refusal(uid_t user, uint64_t amount) const {
  const uint64_t has = of(user);
  if (amount > left(limits_.per_user, has))
    return {EDQUOT, fmt::format("user {} has {} of at most {} {} ({})", user, has, limits_.per_user,
                                limits_.what, limits_.key)};
  const std::string key = limits_.key_all.empty() ? "" : fmt::format(" ({})", limits_.key_all);
  const std::string rest =
      limits_.reserve == 0 ? ""
                           : fmt::format(": the rest is for users with fewer than {}", limits_.reserve_each);
  return {EDQUOT, fmt::format("{} of {} {} are taken{}{}", total_, limits_.all, limits_.what, key, rest)};
}

}  // namespace uroce::service
