#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/launch/command_line.h"
#include "apps/launch/commands.h"
#include "apps/launch/configuration_options.h"
#include "apps/serve/companion_programs.h"
#include "apps/serve/own_libraries.h"
#include "drivers/port/host/socket_path.h"
#include "engine/device/stack.h"
#include "engine/platform/log.h"
#include "service/service.h"

namespace {

using uroce::Error;
using uroce::Result;
using uroce::Status;
using uroce::engine::Configuration;
using uroce::launch::kUsage;
using uroce::serve::Companions;
using uroce::service::ListeningSocket;
using uroce::service::Service;
using uroce::service::ServiceConfiguration;

constexpr int kFailure = 1;

constexpr const char* kExamples =
    "Examples:\n"
    "  uroce serve                   programs of this user reach each other\n"
    "  uroce serve --interface eth0  also what is behind eth0, with its addresses\n"
    "  uroce serve --port net_af_packet0,iface=eth1 --ip 192.0.2.1/24\n"
    "Programs find the service by themselves; UROCE_SERVICE=PATH names another socket. SIGHUP reads the "
    "file\n"
    "again: devices, quotas, users. SIGTERM stops.\n";

/// What programs share when nothing else is configured. The address is of TEST-NET-1 (RFC 5737).
Configuration local_default() {
  Configuration configuration;
  uroce::engine::DeviceConfiguration device;
  device.name = "uroce0";
  device.port = "loopback0";
  device.mac = uroce::MacAddress{{0x02, 0, 0, 0, 0, 1}};
  device.addresses = {{uroce::Gid::from_ipv4({192, 0, 2, 1}), 24}};
  configuration.devices.push_back(std::move(device));
  return configuration;
}

/// Tells the process that has started the service how that went.
class Starter {
 public:
  void tell(int descriptor, const std::string& error) const {
    if (descriptor < 0) return;
    const std::string line = error + "\n";
    if (write(descriptor, line.data(), line.size()) < 0) return;  // it is not there any more
    close(descriptor);
  }
};

/// The one service of this process, for signal handlers.
Service* the_service = nullptr;

void on_stop(int) { the_service->request_stop(); }
void on_child(int) {
  const int interrupted = errno;
  the_service->wake();
  errno = interrupted;
}
void on_reload(int) { the_service->request_reload(); }

void handle_signals() {
  struct sigaction action {};
  action.sa_flags = SA_RESTART;
  action.sa_handler = on_stop;
  sigaction(SIGTERM, &action, nullptr);
  sigaction(SIGINT, &action, nullptr);
  action.sa_handler = on_reload;
  sigaction(SIGHUP, &action, nullptr);
  action.sa_flags |= SA_NOCLDSTOP;
  action.sa_handler = on_child;
  sigaction(SIGCHLD, &action, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
}

/// Each program takes four descriptors.
void raise_descriptor_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

class ServeCommand {
 public:
  ServeCommand() : app_(uroce::launch::kServe.help, "uroce serve"), devices_(app_) {
    app_.footer(kExamples);
    app_.add_option("--socket", socket_, "Where programs find the service")->type_name("PATH");
    app_.add_option("--idle-exit", idle_exit_s_, "Ends when no program was attached for so many seconds")
        ->type_name("S");
    app_.add_option("--ready-fd", ready_,
                    "Gets an empty line when programs can attach, or the error, then is closed")
        ->type_name("N");
    app_.add_flag("--detach", detach_, "Goes on in another process: the one that was started ends at once");
  }

  int execute(int argc, char** argv) {
    // What the environment says is for programs, whose devices are those of the service.
    uroce::launch::publish(local_default());
    const auto tell = [&](const std::string& what) { Starter().tell(ready_, what); };
    if (const auto done = uroce::launch::parse(app_, argc, argv, tell)) return *done;
    if (const Status left = uroce::serve::leave_our_libraries(argv); !left)
      return fail(kFailure, left.error().message);
    if (detach_)
      if (const pid_t child = fork(); child != 0)
        return child > 0 ? 0 : fail(kFailure, std::string("fork: ") + std::strerror(errno));
    const auto configuration = configured_devices();
    if (!configuration) return fail(kUsage, configuration.error().message);
    const auto service = configured_service();
    if (!service) return fail(kUsage, service.error().message);
    auto companions = uroce::serve::companion_programs(devices_.file(), *service);
    if (!companions) return fail(kUsage, companions.error().message);
    const Status status = serve(*configuration, *service, std::move(*companions));
    return status ? 0 : fail(kFailure, status.error().message);
  }

 private:
  [[nodiscard]] int fail(int status, const std::string& what) const {
    fmt::print(stderr, "uroce serve: {}\n", what);
    Starter().tell(ready_, what);
    return status;
  }

  [[nodiscard]] Result<Configuration> configured_devices() const {
    auto configuration = devices_.merged();
    if (!configuration || devices_.file().empty()) return configuration;
    const auto file = uroce::service::read_service_configuration(devices_.file());
    if (!file) return file.error();
    const bool given = app_.count("--port") + app_.count("--interface") > 0;
    if (!file->has_devices && !given) configuration->devices = local_default().devices;
    return configuration;
  }

  [[nodiscard]] Result<ServiceConfiguration> configured_service() const {
    Result<ServiceConfiguration> service = ServiceConfiguration{};
    if (!devices_.file().empty()) service = uroce::service::read_service_configuration(devices_.file());
    if (!service) return service;
    if (!socket_.empty()) service->socket = socket_;
    if (idle_exit_s_) service->idle_exit_s = idle_exit_s_;
    if (!service->socket.empty()) return service;
    const uroce::drivers::ServicePlace place = uroce::drivers::service_place();
    service->socket = place.socket;
    if (!place.passed_over.empty())
      uroce::engine::write_log(
          uroce::engine::LogLevel::kWarning, "uroce serve",
          fmt::format("{} is another user's, or others may write to it: the service is at {}",
                      place.passed_over, place.socket));
    return service;
  }

  /// The file as it is now, and the command line over it as before. What is to run beside the service changes
  /// when the service has taken all of it.
  [[nodiscard]] Result<Service::Configured> read_again(Companions& companions) const {
    auto devices = configured_devices();
    if (!devices) return devices.error();
    auto service = configured_service();
    if (!service) return service.error();
    auto programs = uroce::serve::companion_programs(devices_.file(), *service);
    if (!programs) return programs.error();
    return Service::Configured{
        .service = std::move(*service),
        .devices = std::move(*devices),
        .taken = [&companions, programs = std::move(*programs)] { companions.apply(programs); }};
  }

  [[nodiscard]] Status serve(const Configuration& configuration, const ServiceConfiguration& settings,
                             std::vector<Companions::Program> programs) const {
    raise_descriptor_limit();
    auto inherited = ListeningSocket::inherited();
    auto socket = inherited ? std::move(*inherited)
                            : ListeningSocket::open({.path = settings.socket, .mode = settings.mode});
    if (!socket) return socket.error();
    // Programs meet the faults, not the service's own device.
    Configuration devices = configuration;
    std::vector<uroce::faults::Rule> faults = std::exchange(devices.faults, {});
    auto made = uroce::engine::Stack::create(std::move(devices));
    if (!made) return made.error();
    const std::shared_ptr<uroce::engine::Stack> stack = std::move(*made);
    Companions companions(std::filesystem::absolute(socket->path()));
    companions.apply(std::move(programs));
    Service::Options options{.configuration = settings};
    options.faults = std::move(faults);
    options.beside = [&](bool stopping) { return companions.look(stopping); };
    if (!devices_.file().empty()) options.reload = [&] { return read_again(companions); };
    auto service = Service::create(std::move(*socket), std::move(options));
    if (!service) return service.error();
    for (size_t i = 0; i < configuration.devices.size(); ++i)
      if (Status status = (*service)->add(stack, i); !status) return status;
    the_service = service->get();
    handle_signals();
    Starter().tell(ready_, "");
    (*service)->run();
    // Handlers must not find it when it has ended.
    for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGCHLD}) std::signal(signal, SIG_IGN);
    return {};
  }

  CLI::App app_;
  uroce::launch::ConfigurationOptions devices_;
  std::string socket_;
  std::optional<uint32_t> idle_exit_s_;
  int ready_ = -1;
  bool detach_ = false;
};

}  // namespace

int main(int argc, char** argv) { return ServeCommand().execute(argc, argv); }
