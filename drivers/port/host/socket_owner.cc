#include "drivers/port/host/socket_owner.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

#include "drivers/port/host/socket_path.h"

namespace uroce::drivers {
namespace {

constexpr const char* kShared = "/tmp/";
/// What the kernel shows of a user that a user namespace does not have.
constexpr uid_t kUnknownUser = 65534;

/// A name of this file and no later one: a number is used again, but not with the same time.
std::string identity_of(const struct stat& file) {
  return std::to_string(file.st_dev) + ":" + std::to_string(file.st_ino) + ":" +
         std::to_string(file.st_ctim.tv_sec) + "." + std::to_string(file.st_ctim.tv_nsec);
}

bool was_seen(const std::string& path) {
  const char* const seen = std::getenv("UROCE_SERVICE_SEEN");
  struct stat found {};
  return seen != nullptr && lstat(path.c_str(), &found) == 0 && S_ISSOCK(found.st_mode) &&
         identity_of(found) == seen;
}

}  // namespace

Status check_owner(const std::string& path, int connection) {
  ucred other{};
  socklen_t length = sizeof other;
  if (!path.starts_with(kShared) || getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &other, &length) != 0)
    return {};
  if (other.uid == geteuid() || other.uid == 0) return {};
  if (other.uid == kUnknownUser && was_seen(path)) return {};
  return Error{EPERM, "socket " + path + ": the service there is user " + std::to_string(other.uid) + "'s"};
}

void see_service_socket() {
  const std::string path = service_socket_path();
  struct stat found {};
  const bool of_superuser = path.starts_with(kShared) && lstat(path.c_str(), &found) == 0 &&
                            S_ISSOCK(found.st_mode) && found.st_uid == 0;
  if (of_superuser) setenv("UROCE_SERVICE_SEEN", identity_of(found).c_str(), 1);
}

}  // namespace uroce::drivers
