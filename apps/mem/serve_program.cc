// The server is a program of its own, a client of the service as any other: a crash of an export touches no
// frame of others, and the service has no verbs. Regions are not counted against RLIMIT_MEMLOCK
// (memory.honour_memlock), because nothing is pinned. Cost: a process.
#include "apps/mem/serve_program.h"

#include <fmt/format.h>
#include <pthread.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <exception>
#include <optional>
#include <string_view>
#include <utility>

#include "apps/mem/memory_tables.h"
#include "apps/mem/server.h"
#include "client/failure.h"
#include "service/configuration.h"

namespace uroce::memory_export {
namespace {

constexpr int kFailure = 1;
constexpr int kUsage = 2;

int fail(int status, const std::string& message) {
  fmt::print(stderr, "uroce mem serve: {}\n", message);
  return status;
}

/// Readable when a signal has come; no thread is interrupted by them.
class Signals {
 public:
  Signals() {
    sigset_t signals;
    sigemptyset(&signals);
    for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&signals, signal);
    pthread_sigmask(SIG_BLOCK, &signals, nullptr);
    descriptor_ = signalfd(-1, &signals, SFD_CLOEXEC);
    if (descriptor_ < 0) throw client::failed("signalfd", errno);
  }
  ~Signals() { close(descriptor_); }
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  [[nodiscard]] int descriptor() const { return descriptor_; }
  /// The one that has come.
  [[nodiscard]] int take() const {
    signalfd_siginfo info{};
    return read(descriptor_, &info, sizeof info) == sizeof info ? static_cast<int>(info.ssi_signo) : SIGTERM;
  }

 private:
  int descriptor_ = -1;
};

Result<Server::Settings> read_settings(const std::string& path) {
  auto regions = read_memory_tables(path);
  if (!regions) return regions.error();
  if (regions->empty()) return Error{EINVAL, path + ": there is no table [[memory]]"};
  const auto service = service::read_service_configuration(path);
  if (!service) return service.error();
  return Server::Settings{.regions = std::move(*regions),
                          .connections_per_client = service->memory_connections_per_client};
}

void read_again(Server& server, const std::string& path) {
  const auto refuse = [](std::string_view what) {
    fmt::print(stderr, "uroce mem serve: {}; nothing is changed\n", what);
  };
  std::optional<Result<Server::Settings>> settings;
  try {
    settings = read_settings(path);
  } catch (const std::exception& error) {
    return refuse(fmt::format("{}: {}", path, error.what()));
  }
  const Status status = *settings ? server.apply(**settings) : Status(settings->error());
  if (!status) return refuse(status.error().message);
  fmt::print("uroce mem serve: {} was read again\n", path);
  std::fflush(stdout);
}

}  // namespace

int serve(const std::string& configuration_path, uint16_t port) {
  try {
    // Before the file is read: a signal that says it has changed is not lost.
    const Signals signals;
    const auto settings = read_settings(configuration_path);
    if (!settings) return fail(kUsage, settings.error().message);
    Server server(port);
    if (const Status status = server.apply(*settings); !status) return fail(kFailure, status.error().message);
    fmt::print("uroce mem serve: listening at port {}{}\n", port,
               server.serves_others()
                   ? ""
                   : " for this host alone: allow_any_host = true in a table [[memory]] is for others");
    std::fflush(stdout);
    while (true) {
      server.run(signals.descriptor());
      if (signals.take() != SIGHUP) return 0;
      read_again(server, configuration_path);
    }
  } catch (const client::Failure& failure) {
    return fail(kFailure, failure.what());
  }
}

}  // namespace uroce::memory_export
