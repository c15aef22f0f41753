#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>

#include "base/values/time.h"
#include "service/request_budget.h"

namespace uroce::service {

/// What the control thread keeps of one user of the machine.
struct UserAccount {
  size_t connections = 0;
  RequestBudget budget;
  // The status as the user sees it, and of which look at things it is.
  std::shared_ptr<const std::string> status;
  uint64_t status_number = 0;
  Instant complained{INT64_MIN / 2};  // of a refusal, in the log
};

/// The accounts of users that are connected, or were a moment ago: one that comes again finds what it owes.
class UserAccounts {
 public:
  /// For a connection of the user, until close().
  UserAccount& open(uid_t user) {
    UserAccount& account = accounts_[user];
    ++account.connections;
    return account;
  }
  void close(UserAccount& account) {
    --account.connections;
    if (account.connections == 0) account.status.reset();
  }
  /// Users without a connection that owe nothing.
  void forget_idle(Instant now) {
    std::erase_if(accounts_, [&](const auto& entry) {
      return entry.second.connections == 0 && entry.second.budget.full(now);
    });
  }
  [[nodiscard]] size_t count() const { return accounts_.size(); }

 private:
  std::unordered_map<uid_t, UserAccount> accounts_;
};

}  // namespace uroce::service
