#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "apps/mem/background_thread.h"
#include "base/values/identifiers.h"

namespace uroce::memory_export {

/// Questions that wait for the service. What was asked before the last of these has been given up, or soon
/// is.
inline constexpr size_t kUserQuestionsMax = 64;

/// Whose is a queue pair number?
struct UserQuestion {
  uint64_t number = 0;  // of what asks
  Gid address;          // of the device
  QpNumber queue_pair;
};
struct UserAnswer {
  uint64_t number = 0;
  std::optional<uint64_t> user;  // none: the service does not know it
};

/// Asks the host's service, which may take seconds.
std::optional<UserAnswer> find_user(UserQuestion& question);

using UserLookup = BackgroundThread<UserQuestion, UserAnswer>;

}  // namespace uroce::memory_export
