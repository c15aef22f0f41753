#include <fmt/format.h>
#include <infiniband/verbs.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "apps/info/info.h"
#include "apps/info/machine.h"
#include "apps/launch/configuration_options.h"
#include "apps/launch/run.h"
#include "apps/mem/command_line.h"
#include "apps/nvmf/target_program.h"
#include "apps/perf/benchmark.h"
#include "apps/perf/command_line.h"
#include "apps/serve/client.h"
#include "engine/device/service_devices.h"

namespace {

constexpr int kUsage = 2;

constexpr const char* kHelp =
    "RoCEv2 in user space: RDMA verbs over DPDK ports, without RDMA hardware or a kernel module.\n"
    "Without any configuration programs have the devices of this host's service, which is started when it is "
    "not there.\n";

constexpr const char* kRunExamples =
    "Examples:\n"
    "  uroce run -- ibv_devinfo -v\n"
    "  uroce run --config configs/memif-server.toml -- ibv_rc_pingpong -c\n"
    "  uroce run --port 'net_memif0,role=client,id=0,socket=/tmp/memif.sock,socket-abstract=no' --ip "
    "192.0.2.2/24 --mtu 4200 "
    "\\\n"
    "            -- ibv_rc_pingpong -c 127.0.0.1\n"
    "The other end of a memif is trusted with the memory of the process: both must be the same user's.\n";

constexpr const char* kInfoExamples =
    "Examples:\n"
    "  uroce info\n"
    "  uroce info -v                                also what the devices can do, and the test of each\n"
    "  uroce info --config configs/net-ring.toml\n";

constexpr const char* kNvmfExamples =
    "The file has the tables [nvmf], [[nvmf.listen]], [[nvmf.subsystem]] and [[nvmf.subsystem.namespace]] "
    "beside\n"
    "those of the devices: see configs/nvmf.toml. SIGHUP reads it again: namespaces, subsystems, hosts and\n"
    "listeners come and go. SIGUSR1 prints statistics. SIGTERM stops.\n\n"
    "Examples:\n"
    "  uroce nvmf --config configs/nvmf.toml --interface eth0\n"
    "  nvme connect -t rdma -a 198.51.100.1 -n nqn.2026-11.example:disks       on the host\n";

constexpr const char* kStatusExamples =
    "Examples:\n"
    "  uroce status\n"
    "  uroce status --json | jq '.devices[].programs[].name'\n";

/// `uroce run OPTIONS -- PROGRAM ARGUMENTS`: what stands behind the first "--" is not ours to parse.
struct Arguments {
  std::vector<std::string> own;      // reversed, as CLI11 takes them
  std::vector<std::string> program;  // of `run`
};

Arguments split(int argc, char** argv) {
  Arguments arguments;
  const bool run = argc > 1 && std::string_view(argv[1]) == "run";
  int at = 1;
  for (; at < argc && !(run && std::string_view(argv[at]) == "--"); ++at)
    arguments.own.emplace_back(argv[at]);
  for (++at; at < argc; ++at) arguments.program.emplace_back(argv[at]);
  std::reverse(arguments.own.begin(), arguments.own.end());
  return arguments;
}

/// perf and info are programs of the verbs like any other: they find the configuration in their environment.
void publish(const uroce::engine::Configuration& configuration) {
  setenv("UROCE_CONFIG_TEXT", uroce::engine::to_toml(configuration).c_str(), 1);
}

/// The file that our calls of verbs end in, empty when it is ours.
std::string foreign_library() {
  const std::string file = uroce::info::library_of(reinterpret_cast<const void*>(&ibv_get_device_list));
  const auto own = uroce::launch::library_folder();
  std::error_code error;
  return std::filesystem::equivalent(std::filesystem::path(file).parent_path(), own, error) ? "" : file;
}

class CommandLine {
 public:
  CommandLine()
      : app_(kHelp, "uroce"),
        run_(*app_.add_subcommand("run",
                                  "Run a program over uroce: uroce run [OPTIONS] -- PROGRAM [ARGUMENTS]")),
        perf_(*app_.add_subcommand("perf", "Benchmark RC, UC and UD on any verbs device")),
        nvmf_(
            *app_.add_subcommand("nvmf", "Export files, block devices and memory over NVMe-oF (NVMe/RDMA)")),
        mem_(*app_.add_subcommand("mem", "Export memory by name, and read and write what is exported")),
        serve_(*app_.add_subcommand("serve", "Share devices among the programs of this host")),
        status_(*app_.add_subcommand("status", "Show the programs that share this host's devices")),
        reload_(*app_.add_subcommand("reload", "Have the service read its configuration again")),
        info_(*app_.add_subcommand("info", "Show devices, ports, limits, and what of the machine is used")),
        run_configuration_(run_),
        perf_configuration_(perf_),
        nvmf_configuration_(nvmf_),
        info_configuration_(info_),
        perf_options_(perf_),
        mem_options_(mem_) {
    app_.set_version_flag("--version", "uroce " UROCE_VERSION);
    app_.require_subcommand(1);
    run_.footer(kRunExamples);
    run_.add_flag(
        "--no-device-files", hides_files_,
        "Do not show the devices below /sys/class/infiniband and /dev/infiniband, where UCX and others "
        "look for them. They are shown in a mount namespace of the program's own, where there can be one; "
        "'uroce info' says whether");
    perf_.footer(uroce::perf::CommandLine::kExamples);
    nvmf_.footer(kNvmfExamples);
    info_.footer(kInfoExamples);
    status_.footer(kStatusExamples);
    status_.add_flag("--json", json_, "As JSON, with the reasons why frames were dropped");
    for (CLI::App* command : {&status_, &reload_})
      command->add_option("--socket", socket_, "Of another service than the default one")->type_name("PATH");
    info_.add_flag("-v,--verbose", verbose_,
                   "Also the table of capabilities, each with the test that exercises it");
  }

  int execute(Arguments arguments) {
    const std::string first = arguments.own.empty() ? "" : arguments.own.back();
    if (first == serve_.get_name()) return serve(std::move(arguments.own));
    if (const auto unknown = unknown_command(app_, arguments.own)) return complain(*unknown);
    try {
      app_.parse(arguments.own);
    } catch (const CLI::CallForHelp& help) {
      return app_.exit(help);
    } catch (const CLI::CallForVersion& version) {
      return app_.exit(version);
    } catch (const CLI::ExtrasError&) {
      const std::vector<std::string> unknown = app_.remaining(true);
      return complain(fmt::format("unknown option or argument: {}", unknown.empty() ? "" : unknown.front()));
    } catch (const CLI::ParseError& error) {
      return complain(error.what());
    }
    if (run_.parsed()) return run(arguments.program);
    if (nvmf_.parsed()) return nvmf();
    if (mem_.parsed()) return mem();
    if (status_.parsed()) return uroce::serve::show_status(socket_, json_);
    if (reload_.parsed()) return uroce::serve::reload(socket_);
    return perf_.parsed() ? perf() : info();
  }

 private:
  /// A complaint about the last of the words, if that should be a command of `app` and is none; likewise
  /// about the commands of that command.
  static std::optional<std::string> unknown_command(const CLI::App& app, std::span<const std::string> words) {
    const auto known = app.get_subcommands([](const CLI::App*) { return true; });
    if (known.empty() || words.empty() || words.back().starts_with('-')) return std::nullopt;
    const auto command = std::ranges::find(known, words.back(), &CLI::App::get_name);
    if (command != known.end()) return unknown_command(**command, words.first(words.size() - 1));
    std::string names;
    for (const CLI::App* one : known)
      names += (names.empty() ? "" : one == known.back() ? " and " : ", ") + one->get_name();
    const std::string before = app.get_parent() == nullptr ? "" : app.get_name() + " ";
    return fmt::format("unknown command '{}{}' (there are {})", before, words.back(), names);
  }

  /// One line on standard error; returns the exit status.
  [[nodiscard]] int complain(const std::string& what) const {
    std::string command;
    for (auto chosen = app_.get_subcommands(); !chosen.empty(); chosen = chosen.front()->get_subcommands())
      command += " " + chosen.front()->get_name();
    fmt::print(stderr, "uroce{}: {}\n", command, what);
    return kUsage;
  }

  /// A program of its own, without our libibverbs: its options are its own to parse.
  static int serve(std::vector<std::string> arguments) {
    arguments.pop_back();
    std::reverse(arguments.begin(), arguments.end());
    return uroce::serve::become_service(arguments);
  }

  int run(const std::vector<std::string>& program) {
    if (program.empty()) return complain("no program: uroce run [OPTIONS] -- PROGRAM [ARGUMENTS]");
    const auto configuration = run_configuration_.merged();
    if (!configuration) return complain(configuration.error().message);
    using uroce::launch::ShowFiles;
    return uroce::launch::run(*configuration, program, hides_files_ ? ShowFiles::kNo : ShowFiles::kYes);
  }

  int perf() {
    const auto options = perf_options_.options();
    if (!options) return complain(options.error().message);
    const bool told = std::getenv("UROCE_CONFIG") != nullptr || std::getenv("UROCE_CONFIG_TEXT") != nullptr;
    if (!options->server && options->connect.empty() && !told && !perf_configuration_.given()) {
      // Both ends are here: nothing else of the host is needed.
      publish(uroce::engine::embedded_pair());
    }
    // Without a word about configuration the library in use may be another one.
    if (perf_configuration_.given()) {
      const auto configuration = perf_configuration_.merged();
      if (!configuration) return complain(configuration.error().message);
      if (const std::string other = foreign_library(); !other.empty()) {
        return complain(
            fmt::format("the configuration is of uroce's devices, but the verbs come from {}", other));
      }
      publish(*configuration);
    }
    return uroce::perf::run(*options);
  }

  int nvmf() {
    const std::string file = nvmf_configuration_.file();
    if (file.empty()) return complain("what to export? Give --config FILE, with a table [nvmf] in it");
    const auto configuration = nvmf_configuration_.merged();
    if (!configuration) return complain(configuration.error().message);
    // Over a library of hardware devices the file has nothing to say about them.
    if (foreign_library().empty()) publish(*configuration);
    return uroce::nvmf_target::run(file);
  }

  int mem() {
    if (foreign_library().empty()) {
      auto configuration = uroce::engine::configuration_from_environment();
      if (!configuration) return complain(configuration.error().message);
      // Nothing is pinned here, and regions may be larger than what an ordinary user may lock.
      configuration->honour_memlock = false;
      publish(*configuration);
    }
    const auto status = mem_options_.run();
    return status ? *status : complain(status.error().message);
  }

  int info() {
    auto configuration = info_configuration_.merged();
    if (configuration) configuration = uroce::engine::with_service_devices(std::move(*configuration));
    if (!configuration) return complain(configuration.error().message);
    publish(*configuration);
    return uroce::info::run(*configuration, verbose_);
  }

  CLI::App app_;
  CLI::App& run_;
  CLI::App& perf_;
  CLI::App& nvmf_;
  CLI::App& mem_;
  CLI::App& serve_;
  CLI::App& status_;
  CLI::App& reload_;
  CLI::App& info_;
  uroce::launch::ConfigurationOptions run_configuration_;
  uroce::launch::ConfigurationOptions perf_configuration_;
  uroce::launch::ConfigurationOptions nvmf_configuration_;
  uroce::launch::ConfigurationOptions info_configuration_;
  uroce::perf::CommandLine perf_options_;
  uroce::memory_export::CommandLine mem_options_;
  bool hides_files_ = false;
  bool json_ = false;
  std::string socket_;
  bool verbose_ = false;
};

}  // namespace

int main(int argc, char** argv) { return CommandLine().execute(split(argc, argv)); }
