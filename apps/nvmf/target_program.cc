#include "apps/nvmf/target_program.h"

#include <fmt/format.h>
#include <poll.h>
#include <pthread.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "apps/nvmf/shown_target.h"
#include "engine/platform/clock.h"
#include "engine/platform/log.h"
#include "nvmf_target/exports.h"
#include "nvmf_target/statistics.h"

namespace uroce::nvmf_target {

using engine::LogField;
using engine::LogLevel;
using engine::write_log;

namespace {

/// How often tools see its queues anew.
constexpr int kShowMs = 1000;
/// How often removed namespaces that were still in use are looked at.
constexpr int kCollectMs = 100;

constexpr const char* kOrigin = "uroce nvmf";

int fail(const std::string& message) {
  write_log(LogLevel::kError, kOrigin, message);
  return 1;
}

/// A line about a connection, with the numbers of what it is about.
void log_event(const nvmf::RdmaLogLine& line) {
  std::vector<LogField> fields{{"event", label(line.event)}};
  if (!line.subject.host.empty()) fields.push_back({"host", line.subject.host});
  if (line.subject.queue) fields.push_back({"queue", uint64_t{*line.subject.queue}});
  if (!line.subject.host_nqn.empty()) fields.push_back({"host_nqn", line.subject.host_nqn});
  write_log(LogLevel::kInfo, kOrigin, line.text, fields);
}

sigset_t our_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGUSR1}) sigaddset(&signals, signal);
  return signals;
}

/// The signals as a descriptor; no thread is interrupted by them.
class Signals {
 public:
  Signals() {
    const sigset_t signals = our_signals();
    pthread_sigmask(SIG_BLOCK, &signals, nullptr);
    fd_ = signalfd(-1, &signals, SFD_CLOEXEC);
  }
  ~Signals() { close(fd_); }
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  /// The next one, or 0 after so many milliseconds.
  int wait(int milliseconds) const {
    pollfd waiting{.fd = fd_, .events = POLLIN, .revents = 0};
    signalfd_siginfo info{};
    if (poll(&waiting, 1, milliseconds) != 1 || read(fd_, &info, sizeof(info)) != sizeof(info)) return 0;
    return static_cast<int>(info.ssi_signo);
  }

 private:
  int fd_ = -1;
};

class Program {
 public:
  explicit Program(std::string path) : path_(std::move(path)) {}

  int execute() {
    const Signals signals;
    const auto configuration = read_target_configuration(path_);
    if (!configuration) return fail(configuration.error().message);
    nvmf::RdmaOptions options = configuration->transport;
    options.clock = engine::clock_now;
    options.log = log_event;
    auto transport = nvmf::RdmaTransport::open(target_, options);
    if (!transport) return fail(transport.error().message);
    transport_ = std::move(*transport);
    exports_ = std::make_unique<Exports>(target_, *transport_);
    if (const Status status = exports_->apply(*configuration); !status) return fail(status.error().message);
    statistics_s_ = configuration->statistics_s;
    for (const ListenConfiguration& one : configuration->listens)
      fmt::print("uroce nvmf: listening at {} port {}\n", one.address, one.port);
    std::fflush(stdout);
    serve(signals);
    return stop();
  }

 private:
  void serve(const Signals& signals) {
    std::time_t reported = std::time(nullptr);
    size_t in_use = 0;
    // Without such memory nothing is shown.
    auto shown = ShownTarget::make();
    while (true) {
      const bool looks = statistics_s_ != 0 || shown.ok();
      const int pause_ms = in_use != 0 ? kCollectMs : looks ? kShowMs : -1;
      switch (signals.wait(pause_ms)) {
        case SIGTERM:
        case SIGINT:
          return;
        case SIGHUP:
          read_again();
          break;
        case SIGUSR1:
          report();
          break;
        default:
          break;
      }
      in_use = target_.collect();
      const auto namespaces = target_.report();
      if (shown) shown->show(transport_->report(), namespaces);
      log_errors_of(namespaces);
      const std::time_t now = std::time(nullptr);
      if (statistics_s_ == 0 || now - reported < static_cast<std::time_t>(statistics_s_)) continue;
      report();
      reported = now;
    }
  }

  void read_again() {
    const auto refuse = [](const std::string& what) {
      write_log(LogLevel::kError, kOrigin, what + "; nothing is changed");
    };
    std::optional<Result<TargetConfiguration>> configuration;
    try {
      configuration = read_target_configuration(path_);
    } catch (const std::exception& error) {
      return refuse(path_ + ": " + error.what());
    }
    const Status status = *configuration ? exports_->apply(**configuration) : Status(configuration->error());
    if (!status) return refuse(status.error().message);
    statistics_s_ = (*configuration)->statistics_s;
    fmt::print("uroce nvmf: {} was read again\n", path_);
    std::fflush(stdout);
  }

  /// A line for each namespace of which commands have failed since the last look.
  void log_errors_of(std::span<const nvmf::Target::NamespaceReport> namespaces) {
    std::map<std::pair<std::string, uint32_t>, uint64_t> errors;
    for (const nvmf::Target::NamespaceReport& one : namespaces) {
      const uint64_t all = one.totals.of(nvmf::NamespaceCounter::kErrors);
      errors[{one.nqn, one.nsid}] = all;
      const auto before = errors_.find({one.nqn, one.nsid});
      // Fewer than before: it is a new one of that number.
      const uint64_t newly = before == errors_.end() || all < before->second ? all : all - before->second;
      if (newly == 0) continue;
      const std::array fields{LogField{"subsystem", one.nqn}, LogField{"namespace", uint64_t{one.nsid}},
                              LogField{"errors", newly}};
      write_log(LogLevel::kWarning, kOrigin,
                fmt::format("namespace {} of {}: {} commands failed", one.nsid, one.nqn, newly), fields);
    }
    errors_ = std::move(errors);
  }

  void report() const {
    fmt::print("{}{}", describe(transport_->report()), describe(transport_->events()));
    std::fflush(stdout);
  }

  int stop() {
    report();
    transport_->stop();
    fmt::print("uroce nvmf: stopped\n");
    return 0;
  }

  const std::string path_;
  nvmf::Target target_{{.firmware = UROCE_VERSION}};
  std::unique_ptr<nvmf::RdmaTransport> transport_;  // before the target, whose namespaces it sends from
  std::unique_ptr<Exports> exports_;
  uint32_t statistics_s_ = 0;
  std::map<std::pair<std::string, uint32_t>, uint64_t> errors_;  // of namespaces, at the last look
};

}  // namespace

int run(const std::string& configuration_path) { return Program(configuration_path).execute(); }

}  // namespace uroce::nvmf_target
