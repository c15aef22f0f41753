#include <CLI/CLI.hpp>

#include "apps/launch/command_line.h"
#include "apps/launch/commands.h"
#include "apps/launch/configuration_options.h"
#include "apps/launch/verbs_library.h"
#include "apps/mem/command_line.h"

namespace launch = uroce::launch;

int main(int argc, char** argv) {
  CLI::App app(launch::kMem.help, "uroce mem");
  const uroce::memory_export::CommandLine command_line(app);
  if (const auto done = launch::parse(app, argc, argv)) return *done;
  if (launch::foreign_verbs_library().empty()) {
    auto configuration = uroce::engine::configuration_from_environment();
    if (!configuration) return launch::complain(app, configuration.error().message);
    // Nothing is pinned here, and regions may be larger than what an ordinary user may lock.
    configuration->honour_memlock = false;
    launch::publish(*configuration);
  }
  const auto status = command_line.run();
  return status ? *status : launch::complain(app, status.error().message);
}
