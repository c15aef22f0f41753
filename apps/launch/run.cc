#include "apps/launch/run.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>

#include "apps/launch/configuration_options.h"
#include "apps/launch/device_files.h"
#include "apps/launch/installation.h"
#include "apps/launch/private_mounts.h"
#include "drivers/port/host/socket_owner.h"
#include "engine/device/service_devices.h"

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

/// The first of our libraries that the folder lacks.
std::optional<fs::path> missing_in(const fs::path& folder) {
  std::error_code error;
  for (const char* name : {"libibverbs.so.1", "liburoce.so.0"}) {
    if (!fs::exists(folder / name, error)) return folder / name;
  }
  return std::nullopt;
}

/// Most programs do without them: `uroce info` tells, or the log at a higher level.
void show_files_of(const engine::Configuration& configuration) {
  const Result<DeviceFiles> files = device_files(configuration, engine::networks_of(configuration));
  const Status status = files ? show_device_files(*files) : Status(files.error());
  if (!status && (configuration.log_level == "info" || configuration.log_level == "debug"))
    fmt::print(stderr, "uroce: no device files: {}\n", status.error().message);
}

}  // namespace

int run(engine::Configuration configuration, const std::vector<std::string>& program, ShowFiles show) {
  const fs::path folder = library_folder();
  if (const auto missing = missing_in(folder)) {
    fmt::print(stderr, "uroce run: {} is missing: uroce is not installed completely\n", missing->string());
    return kCannotExecute;
  }
  // Should there be no service, the program's first call of verbs says so.
  if (auto named = engine::with_service_devices(configuration)) configuration = std::move(*named);
  prepend("LD_LIBRARY_PATH", folder.string(), ':');
  publish(configuration);
  drivers::see_service_socket();
  if (show == ShowFiles::kYes) show_files_of(configuration);
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
