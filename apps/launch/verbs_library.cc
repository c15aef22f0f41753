#include "apps/launch/verbs_library.h"

#include <dlfcn.h>
#include <infiniband/verbs.h>

#include <filesystem>

#include "apps/launch/installation.h"

namespace uroce::launch {

namespace fs = std::filesystem;

std::string verbs_library() {
  Dl_info found{};
  if (dladdr(reinterpret_cast<const void*>(&ibv_open_device), &found) == 0 || found.dli_fname == nullptr)
    return {};
  std::error_code error;
  const fs::path path = fs::canonical(found.dli_fname, error);
  return error ? found.dli_fname : path.string();
}

std::string foreign_verbs_library() {
  std::error_code error;
  const std::string file = verbs_library();
  return fs::equivalent(fs::path(file).parent_path(), library_folder(), error) ? "" : file;
}

}  // namespace uroce::launch
