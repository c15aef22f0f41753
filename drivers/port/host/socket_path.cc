#include "drivers/port/host/socket_path.h"

#include <unistd.h>

#include <cstdlib>

namespace uroce::drivers {
namespace {

constexpr const char* kSystem = "/run/uroce/service.sock";

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr ? value : "";
}

}  // namespace

std::string service_socket_path() {
  if (const std::string told = variable("UROCE_SERVICE"); !told.empty()) return told;
  if (access(kSystem, F_OK) == 0) return kSystem;
  if (const std::string runtime = variable("XDG_RUNTIME_DIR"); !runtime.empty())
    return runtime + "/uroce/service.sock";
  return geteuid() == 0 ? kSystem : "/tmp/uroce-" + std::to_string(geteuid()) + "/service.sock";
}

}  // namespace uroce::drivers
