#include <CLI/CLI.hpp>

#include "apps/launch/command_line.h"
#include "apps/launch/commands.h"
#include "apps/stat/top.h"

namespace launch = uroce::launch;

int main(int argc, char** argv) {
  CLI::App app(launch::kTop.help, "uroce top");
  uroce::statistics::Selection selection;
  app.add_option("--pid", selection.pid, "Only of this process")
      ->type_name("PID")
      ->check(CLI::PositiveNumber);
  app.add_option("--device", selection.device, "Only of devices of this name")->type_name("NAME");
  if (const auto done = launch::parse(app, argc, argv)) return *done;
  return uroce::statistics::watch_in_terminal(selection);
}
