#include "drivers/port/host/socket_path.h"

#include <unistd.h>

#include <cstdlib>

namespace uroce::drivers {
namespace {

constexpr const char* kOfSystem = "/run/uroce/service.sock";

std::string value_of(const char* variable) {
  const char* const value = std::getenv(variable);
  return value == nullptr ? "" : value;
}

}  // namespace

std::string service_socket_path() {
  if (std::string chosen = value_of("UROCE_SERVICE"); !chosen.empty()) return chosen;
  if (access(kOfSystem, F_OK) == 0) return kOfSystem;
  if (const std::string folder = value_of("XDG_RUNTIME_DIR"); !folder.empty())
    return folder + "/uroce/service.sock";
  const uid_t user = geteuid();
  return user == 0 ? kOfSystem : "/tmp/uroce-" + std::to_string(user) + "/service.sock";
}

}  // namespace uroce::drivers
