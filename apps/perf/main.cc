#include <CLI/CLI.hpp>
#include <cstdlib>

#include "apps/launch/command_line.h"
#include "apps/launch/commands.h"
#include "apps/launch/configuration_options.h"
#include "apps/launch/verbs_library.h"
#include "apps/perf/benchmark.h"
#include "apps/perf/command_line.h"
#include "apps/perf/report/comparison.h"

namespace {

namespace launch = uroce::launch;

/// Without a word about configuration the library in use may be another one, and the devices are those that
/// it has.
uroce::Status choose_devices(const uroce::perf::Options& options,
                             const launch::ConfigurationOptions& configured) {
  const bool told = std::getenv("UROCE_CONFIG") != nullptr || std::getenv("UROCE_CONFIG_TEXT") != nullptr;
  if (!configured.given()) {
    // Both ends are here: nothing else of the host is needed.
    if (!options.server && options.connect.empty() && !told) launch::publish(uroce::engine::embedded_pair());
    return {};
  }
  const auto configuration = configured.merged();
  if (!configuration) return configuration.error();
  if (const std::string other = launch::foreign_verbs_library(); !other.empty())
    return uroce::Error{EINVAL, "the configuration is of uroce's devices, but the verbs come from " + other};
  launch::publish(*configuration);
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(launch::kPerf.help, "uroce perf");
  app.footer(uroce::perf::CommandLine::kExamples);
  const launch::ConfigurationOptions configured(app);
  const uroce::perf::CommandLine command_line(app);
  if (const auto done = launch::parse(app, argc, argv)) return *done;
  const auto options = command_line.options();
  if (!options) return launch::complain(app, options.error().message);
  if (!options->compared.empty()) return uroce::perf::compare(options->compared[0], options->compared[1]);
  if (const auto status = choose_devices(*options, configured); !status)
    return launch::complain(app, status.error().message);
  return uroce::perf::run(*options);
}
