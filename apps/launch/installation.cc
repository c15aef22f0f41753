// `uroce` has only what run, status and reload need, without DPDK and verbs, and executes the other commands
// as programs, as Git does: loading libraries and building options took half of a start (perf/run --only
// host, host.start.true_ms).
// Cost: several programs that are linked with the verbs.
#include "apps/launch/installation.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace uroce::launch {
namespace {

namespace fs = std::filesystem;

fs::path own_folder() {
  std::error_code error;
  return fs::read_symlink("/proc/self/exe", error).parent_path();
}

/// `built`, seen from this program's folder, if it is there; else `installed`, seen from the prefix.
fs::path built_or_installed(const fs::path& built, const fs::path& installed, const char* has) {
  std::error_code error;
  const fs::path own = own_folder();
  const fs::path of_build = (own / built).lexically_normal();
  const fs::path of_prefix = (own / UROCE_TO_PREFIX / installed).lexically_normal();
  return !fs::exists(of_prefix / has, error) && fs::exists(of_build / has, error) ? of_build : of_prefix;
}

}  // namespace

fs::path library_folder() { return built_or_installed("../lib/verbs", UROCE_LIBRARIES, "libibverbs.so.1"); }

fs::path program_file(const std::string& name) {
  return built_or_installed(".", name == "uroce" ? UROCE_BINARIES : UROCE_PROGRAMS, name.c_str()) / name;
}

int become_command(const std::string& command, const std::vector<std::string>& arguments) {
  const std::string name = "uroce-" + command;
  const std::string file = program_file(name);
  std::vector<char*> all{const_cast<char*>(name.c_str())};
  for (const std::string& argument : arguments) all.push_back(const_cast<char*>(argument.c_str()));
  all.push_back(nullptr);
  execv(file.c_str(), all.data());
  fmt::print(stderr, "uroce {}: {}: {}\n", command, file, std::strerror(errno));
  return kCannotExecute;
}

}  // namespace uroce::launch
