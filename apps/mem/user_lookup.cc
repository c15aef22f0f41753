#include "apps/mem/user_lookup.h"

#include "drivers/port/host/attachment.h"
#include "drivers/port/host/socket_path.h"

namespace uroce::memory_export {

std::optional<UserAnswer> find_user(UserQuestion& question) {
  const auto user = drivers::find_user(drivers::service_socket_path(), question.address, question.queue_pair);
  return UserAnswer{question.number, user ? std::optional<uint64_t>(*user) : std::nullopt};
}

}  // namespace uroce::memory_export
