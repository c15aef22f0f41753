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
#include "apps/launch/completion.h"
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
    "  uroce run ibv_devinfo -v\n"
    "  uroce run --interface eth0 ib_write_bw -x 1\n"
    "  uroce run --config configs/memif-server.toml ibv_rc_pingpong -c\n"
    "The other end of a memif is trusted with the memory of the process: both must be the same user's.\n";

constexpr const char* kStatusExamples =
    "Examples:\n"
    "  uroce status\n"
    "  uroce status --json | jq '.devices[].programs[].name'\n";

/// Programs of their own.
constexpr std::array kElsewhere{launch::kPerf, launch::kNvmf, launch::kMem, launch::kServe,   launch::kDecode,
                                launch::kDump, launch::kInfo, launch::kTop, launch::kExporter};

using launch::Words;

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
    app_.footer("uroce COMMAND --help says more of each. The manual page is uroce(1).\n");
    run_.footer(kRunExamples);
    run_.add_option("PROGRAM", "Searched in PATH; it may stand behind --, and must when it begins with -");
    run_.add_option("ARGUMENTS", "Its own, whatever they are")->expected(0, -1);
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

  int execute(Words words) {
    const launch::ConfigurationOptions configuration(run_);
    const Words program = take_program(words);
    if (const auto done = launch::parse(app_, words)) return *done;
    const std::string chosen = app_.get_subcommands().front()->get_name();
    if (chosen == launch::kStatus.name) return uroce::serve::show_status(socket_, json_);
    if (chosen == launch::kExplain.name) return launch::explain(words_);
    if (chosen == launch::kStat.name) return stat_.execute();
    if (chosen == launch::kQp.name) return qp_.execute();
    if (chosen == launch::kFault.name) return fault_.execute();
    if (chosen == launch::kReload.name) return uroce::serve::reload(socket_);
    return run(configuration, program);
  }

 private:
  CLI::App& add(const launch::Command& command) { return *app_.add_subcommand(command.name, command.help); }

  /// `uroce run OPTIONS PROGRAM ARGUMENTS`, or with "--" before the program: what begins with it is not ours
  /// to parse.
  Words take_program(Words& words) const {
    if (words.empty() || words.front() != launch::kRun.name) return {};
    const Words behind(words.begin() + 1, words.end());
    const auto options = static_cast<ptrdiff_t>(launch::count_options(run_, behind));
    words.resize(1 + static_cast<size_t>(options));
    auto program = behind.begin() + options;
    if (program != behind.end() && *program == "--") ++program;
    return {program, behind.end()};
  }

  int run(const launch::ConfigurationOptions& options, const Words& program) {
    if (program.empty()) return launch::complain(app_, "no program: uroce run [OPTIONS] PROGRAM [ARGUMENTS]");
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
  Words words(argv + std::min(argc, 1), argv + argc);
  // Of a command that is to be completed the name is behind kComplete, and it is finished when a word
  // follows.
  const size_t at = words.size() > 2 && words.front() == launch::kComplete ? 1 : 0;
  if (at < words.size() &&
      std::ranges::find(kElsewhere, words[at], &launch::Command::name) != kElsewhere.end()) {
    const std::string command = words[at];
    words.erase(words.begin() + static_cast<ptrdiff_t>(at));
    return launch::become_command(command, words);
  }
  return CommandLine().execute(std::move(words));
}
