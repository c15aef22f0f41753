#include "drivers/port/host/socket_path.h"

#include <unistd.h>

#include <cstdlib>

namespace uroce::drivers {
namespace {

constexpr const char* kOfSystem = "/run/uroce/service.sock";

std::string text_of(const char* value) { return value == nullptr ? "" : value; }

}  // namespace

std::string service_socket_path() {
  if (std::string chosen = text_of(std::getenv("UROCE_SERVICE")); !chosen.empty()) return chosen;
  if (access(kOfSystem, F_OK) == 0) return kOfSystem;
  if (const std::string folder = text_of(std::getenv("XDG_RUNTIME_DIR")); !folder.empty())
    return folder + "/uroce/service.sock";
  const uid_t user = geteuid();
  return user == 0 ? kOfSystem : "/tmp/uroce-" + std::to_string(user) + "/service.sock";
}

}  // namespace uroce::drivers
