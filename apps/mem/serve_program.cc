#include "apps/mem/serve_program.h"

#include <fmt/format.h>
#include <pthread.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>

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

/// Readable when the process is to end; no thread is interrupted by the signals.
class StopSignals {
 public:
  StopSignals() {
    sigset_t signals;
    sigemptyset(&signals);
    for (const int signal : {SIGTERM, SIGINT}) sigaddset(&signals, signal);
    pthread_sigmask(SIG_BLOCK, &signals, nullptr);
    descriptor_ = signalfd(-1, &signals, SFD_CLOEXEC);
    if (descriptor_ < 0) throw client::failed("signalfd", errno);
  }
  ~StopSignals() { close(descriptor_); }
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  [[nodiscard]] int descriptor() const { return descriptor_; }

 private:
  int descriptor_ = -1;
};

}  // namespace

int serve(const std::string& configuration_path, uint16_t port) {
  const auto configuration = read_memory_tables(configuration_path);
  if (!configuration) return fail(kUsage, configuration.error().message);
  if (configuration->empty()) return fail(kUsage, configuration_path + ": there is no table [[memory]]");
  const auto service = service::read_service_configuration(configuration_path);
  if (!service) return fail(kUsage, service.error().message);
  const auto exports = Exports::open(*configuration);
  if (!exports) return fail(kFailure, exports.error().message);
  try {
    const StopSignals signals;
    Server server(*exports, port, service->memory_connections_per_client);
    fmt::print("uroce mem serve: listening at port {}\n", port);
    std::fflush(stdout);
    server.run(signals.descriptor());
  } catch (const client::Failure& failure) {
    return fail(kFailure, failure.what());
  }
  return 0;
}

}  // namespace uroce::memory_export
