// Decision: uroce-serve links no shared verbs library, and leaves the one that `uroce run` preloads. Else
// DPDK's mlx drivers would find that instead of rdma-core's.
#include "apps/serve/own_libraries.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>

namespace uroce::serve {
namespace {

namespace fs = std::filesystem;

/// A list of folders, or of files.
struct Variable {
  const char* name;
  std::string_view separators;
  bool names_files;
};
constexpr Variable kSearched{"LD_LIBRARY_PATH", ":;", false};
constexpr Variable kPreloaded{"LD_PRELOAD", ": ", true};

bool has_the_stack(const fs::path& folder) {
  std::error_code error;
  return !folder.empty() && fs::exists(folder / "liburoce.so.0", error);
}

/// False: there was nothing of ours.
bool clean(const Variable& variable) {
  const char* const list = std::getenv(variable.name);
  if (list == nullptr) return false;
  bool found = false;
  std::string left;
  for (std::string_view rest = list; !rest.empty();) {
    const size_t length = std::min(rest.find_first_of(variable.separators), rest.size());
    const fs::path entry = rest.substr(0, length);
    if (has_the_stack(variable.names_files ? entry.parent_path() : entry)) {
      found = true;
    } else {
      if (!left.empty()) left += ':';
      left += entry.string();
    }
    rest.remove_prefix(std::min(length + 1, rest.size()));
  }
  if (!found) return false;
  if (left.empty()) {
    unsetenv(variable.name);
  } else {
    setenv(variable.name, left.c_str(), 1);
  }
  return true;
}

}  // namespace

Status leave_our_libraries(char** arguments) {
  const bool searched = clean(kSearched);
  const bool preloaded = clean(kPreloaded);
  if (!searched && !preloaded) return {};
  // By its path: the process is to keep its name.
  std::error_code failed;
  const fs::path self = fs::read_symlink("/proc/self/exe", failed);
  execv(self.c_str(), arguments);
  return Error{errno, self.string() + ": " + std::strerror(errno)};
}

}  // namespace uroce::serve
