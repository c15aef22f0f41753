// The program uroce: what starts programs and asks the host's service is here, with neither DPDK nor verbs in
// it, so that `uroce run` starts at once. Each of the other commands is a program of its own.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "apps/launch/command_line.h"
#include "apps/launch/commands.h"
#include "apps/launch/configuration_options.h"
#include "apps/launch/explanations.h"
#include "apps/launch/fault_command.h"
#include "apps/launch/installation.h"
#include "apps/launch/run.h"
#include "apps/serve/client.h"
#include "apps/stat/stat_command.h"

namespace {

namespace launch = uroce::launch;

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

constexpr const char* kStatusExamples =
    "Examples:\n"
    "  uroce status\n"
    "  uroce status --json | jq '.devices[].programs[].name'\n";

/// Programs of their own.
constexpr std::array kElsewhere{launch::kPerf, launch::kNvmf, launch::kMem, launch::kServe,   launch::kDecode,
                                launch::kDump, launch::kInfo, launch::kTop, launch::kExporter};

using Words = std::vector<std::string>;

/// `uroce run OPTIONS -- PROGRAM ARGUMENTS`: what stands behind the first "--" is not ours to parse.
struct Arguments {
  Words own;
  Words program;  // of `run`
};

Arguments split(Words words) {
  if (words.empty() || words.front() != launch::kRun.name) return {.own = std::move(words), .program = {}};
  const auto end = std::ranges::find(words, "--");
  return {.own = {words.begin(), end}, .program = {end == words.end() ? end : end + 1, words.end()}};
}

class CommandLine {
 public:
  CommandLine()
      : app_(kHelp, "uroce"),
        run_(add(launch::kRun)),
        stat_(add(launch::kStat)),
        qp_(add(launch::kQp)),
        fault_(add(launch::kFault)) {
    for (const launch::Command& command : kElsewhere) add(command);
    CLI::App& status = add(launch::kStatus);
    CLI::App& reload = add(launch::kReload);
    add(launch::kExplain)
        .add_option(
            "WORD", words_,
            "Name or number, as programs print it: 12, IBV_WC_RETRY_EXC_ERR, ENOMEM; without one all names");
    app_.set_version_flag("--version", "uroce " UROCE_VERSION);
    app_.require_subcommand(1);
    run_.footer(kRunExamples);
    run_.add_flag(
        "--no-device-files", hides_files_,
        "Do not show the devices below /sys/class/infiniband and /dev/infiniband, where UCX and others "
        "look for them. They are shown in a mount namespace of the program's own, where there can be one; "
        "'uroce info' says whether");
    status.footer(kStatusExamples);
    status.add_flag("--json", json_, "As JSON, with the reasons why frames were dropped");
    for (CLI::App* command : {&status, &reload})
      command->add_option("--socket", socket_, "Of another service than the default one")->type_name("PATH");
  }

  int execute(const Arguments& arguments) {
    const launch::ConfigurationOptions configuration(run_);
    if (const auto done = launch::parse(app_, arguments.own)) return *done;
    const std::string chosen = app_.get_subcommands().front()->get_name();
    if (chosen == launch::kStatus.name) return uroce::serve::show_status(socket_, json_);
    if (chosen == launch::kExplain.name) return launch::explain(words_);
    if (chosen == launch::kStat.name) return stat_.execute();
    if (chosen == launch::kQp.name) return qp_.execute();
    if (chosen == launch::kFault.name) return fault_.execute();
    if (chosen == launch::kReload.name) return uroce::serve::reload(socket_);
    return run(configuration, arguments.program);
  }

 private:
  CLI::App& add(const launch::Command& command) { return *app_.add_subcommand(command.name, command.help); }

  int run(const launch::ConfigurationOptions& options, const Words& program) {
    if (program.empty())
      return launch::complain(app_, "no program: uroce run [OPTIONS] -- PROGRAM [ARGUMENTS]");
    const auto configuration = options.merged();
    if (!configuration) return launch::complain(app_, configuration.error().message);
    using launch::ShowFiles;
    return launch::run(*configuration, program, hides_files_ ? ShowFiles::kNo : ShowFiles::kYes);
  }

  CLI::App app_;
  CLI::App& run_;
  uroce::statistics::StatCommand stat_;
  uroce::statistics::QueuePairCommand qp_;
  launch::FaultCommand fault_;
  bool hides_files_ = false;
  bool json_ = false;
  std::string socket_;
  Words words_;
};

}  // namespace

int main(int argc, char** argv) {
  const Words words(argv + std::min(argc, 1), argv + argc);
  if (!words.empty() &&
      std::ranges::find(kElsewhere, words.front(), &launch::Command::name) != kElsewhere.end())
    return launch::become_command(words.front(), {words.begin() + 1, words.end()});
  return CommandLine().execute(split(words));
}
