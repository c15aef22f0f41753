#include "drivers/port/host/socket_path.h"

#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

namespace uroce::drivers {
namespace {

constexpr const char* kOfSystem = "/run/uroce/service.sock";
constexpr const char* kName = "/service.sock";

std::string text_of(const char* value) { return value == nullptr ? "" : value; }

enum class Owner { kNobody, kUser, kAnother };

/// Whose the folder is. A link is another's: where it leads may change.
Owner owner_of(const std::string& folder, uid_t user) {
  struct stat found {};
  if (lstat(folder.c_str(), &found) != 0) return errno == ENOENT ? Owner::kNobody : Owner::kAnother;
  const bool others_write = (found.st_mode & (S_IWGRP | S_IWOTH)) != 0;
  return S_ISDIR(found.st_mode) && found.st_uid == user && !others_write ? Owner::kUser : Owner::kAnother;
}

}  // namespace

ServicePlace own_service_place(const std::string& shared, const std::string& home, uid_t user) {
  const std::string usual = shared + "/uroce-" + std::to_string(user);
  const std::string other = home + "/.uroce";
  const Owner of_usual = owner_of(usual, user);
  const bool fits = other.size() + std::string(kName).size() < sizeof(sockaddr_un::sun_path);
  const bool has_home = !home.empty() && fits && owner_of(home, user) == Owner::kUser;
  const Owner of_other = has_home ? owner_of(other, user) : Owner::kAnother;
  const bool takes_other = of_usual == Owner::kNobody
                               ? of_other == Owner::kUser
                               : of_usual == Owner::kAnother && of_other != Owner::kAnother;
  const std::string passed_over = of_usual == Owner::kAnother ? usual : "";
  return {(takes_other ? other : usual) + kName, takes_other ? passed_over : ""};
}

ServicePlace service_place() {
  if (std::string chosen = text_of(std::getenv("UROCE_SERVICE")); !chosen.empty()) return {chosen};
  if (access(kOfSystem, F_OK) == 0) return {kOfSystem};
  if (const std::string folder = text_of(std::getenv("XDG_RUNTIME_DIR")); !folder.empty())
    return {folder + "/uroce" + kName};
  const uid_t user = geteuid();
  return user == 0 ? ServicePlace{kOfSystem} : own_service_place("/tmp", text_of(std::getenv("HOME")), user);
}

std::string service_socket_path() { return service_place().socket; }

}  // namespace uroce::drivers
