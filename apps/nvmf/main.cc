#include <CLI/CLI.hpp>

#include "apps/launch/command_line.h"
#include "apps/launch/commands.h"
#include "apps/launch/configuration_options.h"
#include "apps/launch/verbs_library.h"
#include "apps/nvmf/target_program.h"
#include "engine/platform/log.h"

namespace {

namespace launch = uroce::launch;

constexpr const char* kExamples =
    "The file has the tables [nvmf], [[nvmf.listen]], [[nvmf.subsystem]] and [[nvmf.subsystem.namespace]] "
    "beside\n"
    "those of the devices: see configs/nvmf.toml. SIGHUP reads it again: namespaces, subsystems, hosts and\n"
    "listeners come and go. SIGUSR1 prints statistics. SIGTERM stops.\n\n"
    "Examples:\n"
    "  uroce nvmf --config configs/nvmf.toml --interface eth0\n"
    "  nvme connect -t rdma -a 198.51.100.1 -n nqn.2026-11.example:disks   (host)\n";

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(launch::kNvmf.help, "uroce nvmf");
  app.footer(kExamples);
  const launch::ConfigurationOptions configured(app);
  if (const auto done = launch::parse(app, argc, argv)) return *done;
  const std::string file = configured.file();
  if (file.empty())
    return launch::complain(app, "what to export? Give --config FILE, with a table [nvmf] in it");
  const auto configuration = configured.merged();
  if (!configuration) return launch::complain(app, configuration.error().message);
  // Over a library of hardware devices the file has nothing to say about them.
  if (launch::foreign_verbs_library().empty()) launch::publish(*configuration);
  uroce::engine::set_log_format(configuration->log_format);
  return uroce::nvmf_target::run(file);
}
