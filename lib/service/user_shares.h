#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/values/result.h"

namespace uroce::service {

/// How much each user has of one resource that all users of the machine share. Its owner is a user, not a
/// program or a connection, of which a user may have any number. Not thread-safe.
class UserShares {
 public:
  struct Limits {
    uint64_t all = 0;               // there is so much
    uint64_t per_user = 0;          // one user gets at most so much
    uint64_t reserve = 0;           // the last part of `all`, for users that have little
    uint64_t reserve_each = 0;      // what a user may have, all together, when some of it is of the reserve
    std::string_view what = {};     // the resource, in the plural, for refusals
    std::string_view key = {};      // of the configuration, that says `per_user`
    std::string_view key_all = {};  // likewise `all`; empty: nothing does

    /// A quarter of `all` is the reserve, and each of 16 users may have a part of it. None, if a user may
    /// have all.
    static constexpr Limits with_reserve(uint64_t all, uint64_t per_user) {
      const uint64_t reserve = per_user < all ? all / 4 : 0;
      const uint64_t each = (reserve + 15) / 16;
      return {.all = all, .per_user = per_user, .reserve = reserve, .reserve_each = each};
    }
  };

  /// What a user holds, until this ends. The shares outlive it.
  class Held {
   public:
    Held() = default;
    Held(Held&& other) noexcept { *this = std::move(other); }
    Held& operator=(Held&& other) noexcept;
    ~Held() { give_back(amount_); }

    [[nodiscard]] uint64_t amount() const { return amount_; }
    [[nodiscard]] uid_t user() const { return user_; }
    /// At most what is held.
    void give_back(uint64_t amount);
    /// Holds what `other`, of the same user, held as well.
    void add(Held other);

   private:
    friend UserShares;
    Held(UserShares& of, uid_t user, uint64_t amount) : of_(&of), user_(user), amount_(amount) {}

    UserShares* of_ = nullptr;
    uid_t user_ = 0;
    uint64_t amount_ = 0;
  };

  UserShares() = default;  // there is nothing
  explicit UserShares(const Limits& limits) : limits_(limits) {}
  UserShares(const UserShares&) = delete;
  UserShares& operator=(const UserShares&) = delete;

  /// What was taken before stays, also beyond the new limits.
  void set_limits(const Limits& limits) { limits_ = limits; }
  [[nodiscard]] const Limits& limits() const { return limits_; }

  /// How much more the user may take now.
  [[nodiscard]] uint64_t available(uid_t user) const;
  /// EDQUOT, with whose limit it is and how it is called.
  Result<Held> take(uid_t user, uint64_t amount);
  /// What the user had before, when others may have taken of the reserve meanwhile: only the user's own quota
  /// counts.
  Result<Held> take_again(uid_t user, uint64_t amount);

  [[nodiscard]] uint64_t of(uid_t user) const;
  [[nodiscard]] uint64_t total() const { return total_; }

 private:
  Held grant(uid_t user, uint64_t amount);
  [[nodiscard]] Error refusal(uid_t user, uint64_t amount) const;

  Limits limits_;
  std::unordered_map<uid_t, uint64_t> users_;
  uint64_t total_ = 0;
};

}  // namespace uroce::service
