#include "apps/launch/run.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>

namespace uroce::launch {
namespace {

namespace fs = std::filesystem;

void prepend(const char* variable, const std::string& value, char separator) {
  const char* old = std::getenv(variable);
  const std::string all = old == nullptr || *old == '\0' ? value : value + separator + old;
  setenv(variable, all.c_str(), 1);
}

/// A build with a sanitizer: programs that were built without it need its runtime before everything else.
void preload_sanitizer() {
  constexpr std::string_view kRuntime = UROCE_SANITIZER_RUNTIME;
  if (kRuntime.empty()) return;
  prepend("LD_PRELOAD", std::string(kRuntime), ':');
  // What a foreign program does not free is its own affair. The last of several settings counts.
  const char* options = std::getenv("ASAN_OPTIONS");
  setenv("ASAN_OPTIONS", fmt::format("{}:detect_leaks=0", options == nullptr ? "" : options).c_str(), 1);
}

}  // namespace

std::optional<fs::path> library_folder() {
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  if (error) return std::nullopt;
  for (const char* candidate : {"../lib/verbs", UROCE_INSTALLED_LIBRARIES}) {
    const fs::path folder = (self.parent_path() / candidate).lexically_normal();
    if (fs::exists(folder / "libibverbs.so.1", error)) return folder;
  }
  return std::nullopt;
}

int run(const engine::Configuration& configuration, const std::vector<std::string>& program) {
  const std::optional<fs::path> folder = library_folder();
  if (!folder) {
    fmt::print(stderr, "uroce run: libibverbs.so.1 of uroce is missing beside this program\n");
    return kCannotExecute;
  }
  prepend("LD_LIBRARY_PATH", folder->string(), ':');
  setenv("UROCE_CONFIG_TEXT", engine::to_toml(configuration).c_str(), 1);
  unsetenv("UROCE_CONFIG");
  preload_sanitizer();

  std::vector<char*> arguments;
  for (const std::string& argument : program) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  const int error = errno;
  fmt::print(stderr, "uroce run: {}: {}\n", program.front(), std::strerror(error));
  return error == ENOENT ? kNotFound : kCannotExecute;
}

}  // namespace uroce::launch
