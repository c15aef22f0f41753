#include <CLI/CLI.hpp>

#include "apps/info/info.h"
#include "apps/launch/command_line.h"
#include "apps/launch/commands.h"
#include "apps/launch/configuration_options.h"
#include "engine/device/service_devices.h"

namespace {

namespace launch = uroce::launch;

constexpr const char* kExamples =
    "Examples:\n"
    "  uroce info\n"
    "  uroce info -v              also what the devices can do, and the test of each\n"
    "  uroce info --config configs/net-ring.toml\n";

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(launch::kInfo.help, "uroce info");
  app.footer(kExamples);
  const launch::ConfigurationOptions configured(app);
  bool verbose = false;
  app.add_flag("-v,--verbose", verbose,
               "Also the table of capabilities, each with the test that exercises it");
  if (const auto done = launch::parse(app, argc, argv)) return *done;
  auto configuration = configured.merged();
  if (configuration) configuration = uroce::engine::with_service_devices(std::move(*configuration));
  if (!configuration) return launch::complain(app, configuration.error().message);
  launch::publish(*configuration);
  return uroce::info::run(*configuration, verbose);
}
