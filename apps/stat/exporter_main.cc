// `uroce exporter`: an endpoint for Prometheus.
#include <fmt/format.h>
#include <prometheus/text_serializer.h>
#include <sys/signalfd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <iostream>
#include <sstream>
#include <string>
#include <utility>

#include "apps/launch/command_line.h"
#include "apps/launch/commands.h"
#include "apps/stat/metrics.h"
#include "apps/stat/scrape_server.h"

namespace launch = uroce::launch;

namespace {

constexpr const char* kExamples =
    "Examples:\n"
    "  uroce exporter\n"
    "  uroce exporter --listen 0.0.0.0:9877 --queue-pairs 0\n"
    "  uroce exporter --once > /var/lib/node_exporter/uroce.prom\n"
    "It shows processes of its own user; as root, all. Every client that can connect can read the metrics.\n";

std::string text_of(const uroce::statistics::Metrics& metrics) {
  std::ostringstream text;
  prometheus::TextSerializer().Serialize(text, metrics.Collect());
  return std::move(text).str();
}

int serve(const std::string& listen, const uroce::statistics::Metrics& metrics) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  const uroce::Descriptor stop(signalfd(-1, &signals, SFD_CLOEXEC));
  auto server = uroce::statistics::ScrapeServer::listen(listen, [&] { return text_of(metrics); });
  if (!server) {
    fmt::print(stderr, "uroce exporter: cannot listen at {}: {}\n", listen, server.error().message);
    return 1;
  }
  fmt::print("uroce exporter: metrics at port {}, path /metrics\n", server->port());
  std::fflush(stdout);
  server->serve(stop.get());
  return 0;
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
      ->type_name("N")
      ->check(CLI::Range(0, 4096))
      ->capture_default_str();
  app.add_flag("--once", once, "Print the metrics once, and listen nowhere");
  if (const auto done = launch::parse(app, argc, argv)) return *done;
  const uroce::statistics::Metrics metrics(queue_pairs);
  if (!once) return serve(listen, metrics);
  return (std::cout << text_of(metrics)).flush() ? 0 : 1;
}
