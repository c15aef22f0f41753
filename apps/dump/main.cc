// `uroce dump`: frames of running programs, in a file of pcapng.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <array>
#include <csignal>
#include <optional>
#include <string>

#include "apps/dump/session.h"
#include "apps/launch/command_line.h"
#include "apps/launch/commands.h"

namespace {

namespace dump = uroce::dump;
namespace launch = uroce::launch;

constexpr const char* kExamples =
    "Examples:\n"
    "  uroce dump --client 4711 --snaplen 0 capture.pcapng\n"
    "  uroce dump --opcode READ - | tshark -r -\n"
    "  uroce dump --direction out --snaplen 0 --count 1000 - | uroce decode -\n"
    "  uroce dump --last 10s before-the-error.pcapng\n"
    "  uroce dump --wire --device uroce0 outside.pcapng\n"
    "Ctrl-C ends it. A frame between two programs of the host is captured by both, unless --direction or "
    "--client\n"
    "say which. --client also captures of a process with a port of its own (no service).\n";

/// "10s", "500ms"; null: it is none.
std::optional<int64_t> read_time(const std::string& text) {
  size_t digits = 0;
  double number = 0;
  try {
    number = std::stod(text, &digits);
  } catch (const std::exception&) {
    return std::nullopt;
  }
  const std::string unit = text.substr(digits);
  const double factor = unit == "s" ? 1e9 : unit == "ms" ? 1e6 : 0;
  if (!(number > 0) || factor == 0 || number * factor > 3600e9) return std::nullopt;
  return static_cast<int64_t>(number * factor);
}

struct Option {
  const char* key;
  const char* type;
  const char* help;
};
constexpr std::array<Option, 6> kOptions{{{"device", "NAME", "Of programs of this device"},
                                          {"qp", "N", "Of this queue pair, which comes from a program"},
                                          {"client", "PID", "Of this process"},
                                          {"opcode", "NAME", "RoCE packets with this in their opcode's name"},
                                          {"direction", "WHICH", "in, out or both (both)"},
                                          {"snaplen", "BYTES", "So much of each frame; 0: all (128)"}}};

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(launch::kDump.help, "uroce dump");
  dump::Options options;
  std::array<std::string, kOptions.size()> values;
  for (size_t i = 0; i < kOptions.size(); ++i)
    app.add_option(fmt::format("--{}", kOptions[i].key), values[i], kOptions[i].help)
        ->type_name(kOptions[i].type);
  std::string last;
  app.add_option("--count", options.count, "Ends after so many packets")
      ->check(CLI::Range(uint64_t{1}, UINT64_MAX))
      ->type_name("N");
  app.add_option("--last", last,
                 "Keep those of so long, and write them when a NAK or an error comes, or at the end: 10s")
      ->type_name("TIME");
  CLI::Option* const waits = app.add_flag("--wait", options.waits, "Also when no program runs yet");
  app.add_flag("--wire", options.wire, "What the ports of the service itself receive and send")
      ->excludes(app.get_option("--client"))
      ->excludes(app.get_option("--qp"))
      ->excludes(waits);
  app.add_option("--socket", options.socket, "Of another service than the default one")->type_name("PATH");
  app.add_option("FILE", options.file, "What is written, pcapng; - is standard output")->required();
  app.footer(kExamples);
  if (const auto done = launch::parse(app, argc, argv)) return *done;
  std::string order(uroce::capture::kOrderPrefix);
  for (size_t i = 0; i < kOptions.size(); ++i) {
    if (app.count(fmt::format("--{}", kOptions[i].key)) == 0) continue;
    if (values[i].find(',') != std::string::npos)
      return launch::complain(app, fmt::format("--{} {}: must have no comma", kOptions[i].key, values[i]));
    order += fmt::format(",{}={}", kOptions[i].key, values[i]);
  }
  const auto parsed = uroce::capture::parse_order(order);
  if (!parsed) return launch::complain(app, parsed.error().message);
  options.order = *parsed;
  if (!last.empty()) {
    options.last_ns = read_time(last);
    if (!options.last_ns)
      return launch::complain(app, "--last: must be a time with its unit up to an hour, as in 10s");
  }
  struct sigaction action {};
  action.sa_handler = [](int) { dump::Session::stop(); };
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaction(signal, &action, nullptr);
  signal(SIGPIPE, SIG_IGN);
  return dump::Session(options).run();
}
