// `uroce exporter`: an endpoint for Prometheus.
#include <fmt/format.h>
#include <prometheus/exposer.h>
#include <prometheus/text_serializer.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <memory>
#include <string>

#include "apps/launch/command_line.h"
#include "apps/launch/commands.h"
#include "apps/stat/metrics.h"

namespace launch = uroce::launch;

namespace {

constexpr const char* kExamples =
    "Examples:\n"
    "  uroce exporter\n"
    "  uroce exporter --listen 0.0.0.0:9877 --queue-pairs 0\n"
    "  uroce exporter --once > /var/lib/node_exporter/uroce.prom\n"
    "It shows processes of its own user; as root, all. Every client that can connect can read the metrics.\n";

/// Blocked before the endpoint's threads are made, which inherit that.
sigset_t block_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  return signals;
}

int serve(const std::string& listen, const std::shared_ptr<uroce::statistics::Metrics>& metrics) {
  const sigset_t signals = block_signals();
  try {
    prometheus::Exposer exposer(listen);
    exposer.RegisterCollectable(metrics);
    fmt::print("uroce exporter: metrics at port {}, path /metrics\n", exposer.GetListeningPorts().at(0));
    std::fflush(stdout);
    int signal = 0;
    sigwait(&signals, &signal);
    // The library's threads would take two seconds to end, and there is nothing to save.
    std::quick_exit(0);
  } catch (const std::exception&) {
    // What the library says of it is no more than this.
    fmt::print(stderr,
               "uroce exporter: cannot listen at {}: in use, not an address of this host, or not allowed\n",
               listen);
    return 1;
  }
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(launch::kExporter.help, "uroce exporter");
  app.footer(kExamples);
  std::string listen = "127.0.0.1:9877";
  size_t queue_pairs = 64;
  bool once = false;
  app.add_option("--listen", listen, "Where it listens; port 0: any")
      ->type_name("ADDRESS:PORT")
      ->capture_default_str();
  app.add_option("--queue-pairs", queue_pairs,
                 "So many of each process, the busiest, have metrics of their own")
      ->check(CLI::Range(0, 4096))
      ->capture_default_str();
  app.add_flag("--once", once, "Print the metrics once, and listen nowhere");
  if (const auto done = launch::parse(app, argc, argv)) return *done;
  const auto metrics = std::make_shared<uroce::statistics::Metrics>(queue_pairs);
  if (!once) return serve(listen, metrics);
  prometheus::TextSerializer().Serialize(std::cout, metrics->Collect());
  return std::cout.flush() ? 0 : 1;
}
